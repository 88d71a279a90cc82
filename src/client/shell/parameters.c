/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of a job, as this process names them. Only what somebody has said is sent: a
 * default is no opinion. What contradicts itself is refused here, with the words for it; what
 * contradicts the others, by the service. */
#include "client/shell/parameters.h"

#include "client/shell/environment.h"
#include "client/shell/handle.h"

muster_status mst_lib_parameters(struct mst_open *open, const struct muster_client_options *options,
                                 struct muster_error *err)
{
    struct mst_option numbers[] = {
        MST_OPTION("size", options->size_of_job, &open->size, MST_OPTION_SAID),
        MST_OPTION("min_size", options->min_size, &open->min_size, MST_OPTION_SAID),
        MST_OPTION("max_size", options->max_size, &open->max_size, MST_OPTION_SAID),
        MST_OPTION("size_multiple", options->size_multiple, &open->size_multiple, MST_OPTION_SAID),
        MST_OPTION("join_wait", options->join_wait_ms, &open->join_wait_ms, MST_OPTION_SAID),
    };

    return mst_lib_numbers(numbers, sizeof(numbers) / sizeof(numbers[0]), err);
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
