/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of the job are sent only where an option or a variable sets them: a default is no
 * opinion. Values that contradict each other are refused here, with the words for it; values that
 * contradict those of other members, by the service. */
#define _GNU_SOURCE
#include "client/shell/options.h"

#include <string.h>

#include "client/shell/environment.h"

#define TEXT_OF(number) TEXT_OF_1(number)
#define TEXT_OF_1(number) #number

const char *muster_version(void)
{
    return TEXT_OF(MUSTER_VERSION_MAJOR) "." TEXT_OF(MUSTER_VERSION_MINOR) "." TEXT_OF(
        MUSTER_VERSION_PATCH);
}

static muster_status read_options(struct muster_client_options *out,
                                  const struct muster_client_options *given,
                                  struct muster_error *err)
{
    *out = (struct muster_client_options)MUSTER_CLIENT_OPTIONS_INIT;
    if (!given) {
        return MUSTER_OK;
    }
    if (given->size < offsetof(struct muster_client_options, role)) {
        return mst_lib_refuse(err, "open",
                              "options.size is not set; begin with MUSTER_CLIENT_OPTIONS_INIT");
    }
    if (given->size > sizeof(*out) || given->version > MUSTER_VERSION) {
        return mst_lib_refuse(err, "open",
                              "the program was built for a newer libmuster than this one, which is "
                              "version " TEXT_OF(MUSTER_VERSION_MAJOR) "." TEXT_OF(
                                  MUSTER_VERSION_MINOR) "; install the newer one");
    }
    memcpy(out, given, given->size);
    return MUSTER_OK;
}

static muster_status read_role(struct mst_lib_wanted *wanted, struct muster_error *err)
{
    static const enum mst_role roles[] = {[MUSTER_ROLE_RANK] = MST_ROLE_RANK,
                                          [MUSTER_ROLE_WORKER] = MST_ROLE_WORKER,
                                          [MUSTER_ROLE_AGENT] = MST_ROLE_AGENT,
                                          [MUSTER_ROLE_OBSERVER] = MST_ROLE_OBSERVER};
    unsigned role = (unsigned)wanted->options.role;

    if (role >= sizeof(roles) / sizeof(roles[0])) {
        return mst_lib_refuse(err, "open", "options.role is none of enum muster_role");
    }
    wanted->open.role = roles[role];
    return MUSTER_OK;
}

static muster_status read_grow(struct mst_lib_wanted *wanted, struct muster_error *err)
{
    int64_t number = (int64_t)wanted->options.grow - 1;
    muster_status status = MUSTER_OK;

    if (wanted->options.grow == MUSTER_GROW_DEFAULT) {
        status = mst_lib_setting("grow", &number, NULL, err);
    } else if (number < 0 || number > MST_GROW_OFF) {
        return mst_lib_refuse(err, "open", "options.grow is none of enum muster_grow");
    }
    wanted->open.grow = (enum mst_grow)number;
    return status;
}

static muster_status read_numbers(struct mst_lib_wanted *wanted, struct muster_error *err)
{
    const struct muster_client_options *given = &wanted->options;
    struct mst_open *open = &wanted->open;
    struct mst_option numbers[] = {
        MST_OPTION("size", given->size_of_job, &open->size, MST_OPTION_SAID),
        MST_OPTION("min_size", given->min_size, &open->min_size, MST_OPTION_SAID),
        MST_OPTION("max_size", given->max_size, &open->max_size, MST_OPTION_SAID),
        MST_OPTION("size_multiple", given->size_multiple, &open->size_multiple, MST_OPTION_SAID),
        MST_OPTION("join_wait", given->join_wait_ms, &open->join_wait_ms, MST_OPTION_SAID),
        MST_OPTION("page_fd", 0, &wanted->page_fd, 0),
        MST_OPTION("node", 0, &open->node, 0), /* by default -1, which is MST_NODE_NONE */
    };

    return mst_lib_numbers(numbers, sizeof(numbers) / sizeof(numbers[0]), err);
}

static muster_status read_index(struct mst_lib_wanted *wanted, struct muster_error *err)
{
    int64_t index = wanted->options.index;
    muster_status status = MUSTER_OK;

    wanted->index_set = index != MUSTER_INDEX_ENV;
    if (index == MUSTER_INDEX_ENV) {
        status = mst_lib_setting("index", &index, &wanted->index_set, err);
    }
    if (index < MUSTER_INDEX_ANY || index >= (int64_t)MST_INDEX_ANY) {
        return mst_lib_refuse(err, "open", "options.index is no place in a job");
    }
    wanted->open.index = index < 0 ? MST_INDEX_ANY : (uint32_t)index;
    return status;
}

/* A rank without an index has its place from its launcher. */
static muster_status read_launcher(struct mst_lib_wanted *wanted, struct muster_error *err)
{
    muster_status status = MUSTER_OK;

    if (wanted->open.role != MST_ROLE_RANK || wanted->index_set) {
        return MUSTER_OK;
    }
    status = mst_lib_where(&wanted->where, err);
    if (status == MUSTER_OK && wanted->where.launcher != MST_LAUNCHER_NONE) {
        wanted->open.index = wanted->where.place.rank;
        if (wanted->open.size == 0) {
            wanted->open.size = wanted->where.place.size;
        }
    }
    return status;
}

static muster_status check_sizes(struct mst_lib_wanted *wanted, struct muster_error *err)
{
    const struct mst_open *open = &wanted->open;
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

/* Without an address a rank is a job of its own, or shares one with the other ranks that its
 * launcher started on this machine. */
static muster_status read_nowhere(struct mst_lib_wanted *wanted, struct muster_error *err)
{
    const struct mst_discovered *place = &wanted->where.place;
    bool launched = wanted->where.launcher != MST_LAUNCHER_NONE;

    if (wanted->open.role != MST_ROLE_RANK || wanted->index_set) {
        return mst_lib_refuse(
            err, "open",
            "no address of a service: set MUSTER_ADDR or options.addr (unix:/path "
            "or HOST:PORT)");
    }
    if (!launched && wanted->open.size > 1) {
        return mst_lib_refuse(
            err, "open",
            "the job has several ranks, but neither the index of this one nor the "
            "address of their service is set: set MUSTER_INDEX and MUSTER_ADDR");
    }
    wanted->share = launched && place->size != 1;
    if (wanted->share && place->local_size != place->size) {
        return mst_lib_where_apart(&wanted->where, err);
    }
    wanted->alone = !wanted->share;
    if (wanted->share) {
        mst_lib_where_name(&wanted->where);
    }
    return MUSTER_OK;
}

muster_status mst_lib_wanted_endpoints(struct mst_lib_wanted *wanted, struct muster_error *err)
{
    const char *addr = wanted->options.addr;
    bool anywhere = wanted->secret.insecure || mst_lib_secret_given(&wanted->secret);
    char error[320];

    if (mst_endpoints_parse(&wanted->endpoints, addr, anywhere, error, sizeof(error)) ==
        MUSTER_OK) {
        return MUSTER_OK;
    }
    (void)mst_endpoints_unknown(addr, error, sizeof(error)); /* a mistyped name, not a secret */
    return mst_lib_refuse(err, "open", "%s", error);
}

static muster_status read_place(struct mst_lib_wanted *wanted, struct muster_error *err)
{
    if (!wanted->options.addr || !*wanted->options.addr) {
        wanted->options.addr = mst_lib_setting_text("addr");
    }
    return wanted->options.addr ? mst_lib_wanted_endpoints(wanted, err) : read_nowhere(wanted, err);
}

static const char *job_of(const struct mst_lib_wanted *wanted)
{
    const char *job = wanted->options.job;

    if (!job || !*job) {
        job = mst_lib_setting_text("job");
    }
    if (job || wanted->alone) {
        return job;
    }
    return wanted->where.place.job[0] != '\0' ? wanted->where.place.job : "default";
}

muster_status mst_lib_wanted_read(struct mst_lib_wanted *wanted,
                                  const struct muster_client_options *given,
                                  struct muster_error *err)
{
    muster_status (*const readers[])(struct mst_lib_wanted *, struct muster_error *) = {
        read_role,     read_grow,   read_numbers,        read_index,
        read_launcher, check_sizes, mst_lib_secret_find, read_place};
    muster_status status = read_options(&wanted->options, given, err);

    for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]) && status == MUSTER_OK; i++) {
        status = readers[i](wanted, err);
    }
    wanted->options.job = job_of(wanted);
    return status;
}
