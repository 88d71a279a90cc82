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

muster_status mst_lib_parameters_check(const struct mst_open *open, struct muster_error *err)
{
    uint32_t least = open->min_size != 0 ? open->min_size : 1;
    uint32_t multiple = open->size_multiple;
    uint32_t size = open->size;
    uint32_t most = open->max_size;

    if (most != 0 && most < least) {
        return mst_lib_refuse(err, "open", "max_size %u is below min_size %u", most, least);
    }
    if (most != 0 && size > most) {
        return mst_lib_refuse(err, "open",
                              "max_size %u is below size %u, with which the job is to start", most,
                              size);
    }
    if (size != 0 && size < least) {
        return mst_lib_refuse(err, "open", "size %u is below min_size %u", size, least);
    }
    if (multiple != 0 && size != 0 && size - size % multiple < least) {
        return mst_lib_refuse(err, "open",
                              "no multiple of size_multiple %u is from min_size to size %u: the "
                              "job could not start",
                              multiple, size);
    }
    if (multiple != 0 && most != 0 && most - most % multiple < least) {
        return mst_lib_refuse(err, "open",
                              "no multiple of size_multiple %u is from min_size to max_size %u: "
                              "the job could not start",
                              multiple, most);
    }
    return MUSTER_OK;
}
