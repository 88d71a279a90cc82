/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of a job, as this process names them. Only what somebody has said is sent: a
 * default is no opinion. What contradicts itself is refused here, with the words for it; what
 * contradicts the others, by the service. */
#include "client/shell/parameters.h"

#include "client/shell/environment.h"
#include "client/shell/handle.h"

static muster_status read_number(const char *name, int64_t given, int64_t *out,
                                 struct muster_error *err)
{
    bool set = false;
    muster_status status;

    *out = given;
    if (given != 0) {
        return mst_lib_setting_check(name, given, err);
    }
    status = mst_lib_setting(name, out, &set, err);
    if (!set) {
        *out = 0;
    }
    return status;
}

muster_status mst_lib_parameters(struct mst_open *open, const struct muster_client_options *options,
                                 struct muster_error *err)
{
    const struct {
        const char *name;
        int64_t given;
        uint32_t *field;
    } numbers[] = {{"size", options->size_of_job, &open->size},
                   {"min_size", options->min_size, &open->min_size},
                   {"max_size", options->max_size, &open->max_size},
                   {"size_multiple", options->size_multiple, &open->size_multiple}};
    int64_t number = 0;
    muster_status status = MUSTER_OK;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && status == MUSTER_OK; i++) {
        status = read_number(numbers[i].name, numbers[i].given, &number, err);
        *numbers[i].field = (uint32_t)number;
    }
    if (status == MUSTER_OK) {
        status = read_number("join_wait", options->join_wait_ms, &number, err);
        open->join_wait_ms = (uint64_t)number;
    }
    return status;
}

/* "max_size 4 is below size 6" */
static muster_status refuse(struct muster_error *err, const char *name, uint32_t value,
                            const char *is, uint32_t other, const char *why)
{
    char line[256];
    struct mst_text text = mst_text_in(line, sizeof(line));

    mst_text_add(&text, name);
    mst_text_add(&text, " ");
    mst_text_u64(&text, value);
    mst_text_add(&text, is);
    mst_text_u64(&text, other);
    mst_text_add(&text, why);
    return mst_lib_refuse(err, "open", line);
}

muster_status mst_lib_parameters_check(const struct mst_open *open, struct muster_error *err)
{
    uint32_t least = open->min_size != 0 ? open->min_size : 1;
    uint32_t multiple = open->size_multiple;
    uint32_t size = open->size;
    uint32_t most = open->max_size;

    if (most != 0 && most < least) {
        return refuse(err, "max_size", most, " is below min_size ", least, "");
    }
    if (most != 0 && size > most) {
        return refuse(err, "max_size", most, " is below size ", size,
                      ", with which the job is to start");
    }
    if (size != 0 && size < least) {
        return refuse(err, "size", size, " is below min_size ", least, "");
    }
    if (multiple != 0 && size != 0 && size - size % multiple < least) {
        return refuse(err, "no multiple of size_multiple", multiple, " is from min_size to size ",
                      size, ": the job could not start");
    }
    if (multiple != 0 && most != 0 && most - most % multiple < least) {
        return refuse(err, "no multiple of size_multiple", multiple,
                      " is from min_size to max_size ", most, ": the job could not start");
    }
    return MUSTER_OK;
}
