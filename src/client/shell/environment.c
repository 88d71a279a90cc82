/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a program: its options, else MUSTER_<NAME>, else the default. */
#include <stdlib.h>
#include <string.h>

#include "client/shell/environment.h"
#include "client/shell/handle.h"
#include "client/shell/process_lock.h"
#include "proto/settings.h"

extern char **environ;

void mst_environment_lock(void)
{
    mst_process_lock(MST_LOCK_ENVIRONMENT);
}

void mst_environment_unlock(void)
{
    mst_process_unlock(MST_LOCK_ENVIRONMENT);
}

muster_status mst_environment_copy(struct mst_environment *out)
{
    muster_status status;

    mst_environment_lock();
    status = mst_environment_init(out, environ);
    mst_environment_unlock();
    return status;
}

const char *mst_lib_setting_text(const char *name)
{
    char variable[64] = "MUSTER_";
    size_t size = strlen(variable);
    const char *value;

    for (; *name && size + 1 < sizeof(variable); name++) {
        bool small = *name >= 'a' && *name <= 'z';

        variable[size++] = (char)(small ? *name - 'a' + 'A' : *name);
    }
    variable[size] = '\0';
    mst_environment_lock();
    value = getenv(variable);
    mst_environment_unlock();
    return value && *value ? value : NULL;
}

muster_status mst_lib_setting(const char *name, int64_t *out, bool *set_out,
                              struct muster_error *err)
{
    const struct mst_setting *setting = mst_setting_find(name);
    const char *value = mst_lib_setting_text(name);
    char error[256];

    if (set_out) {
        *set_out = value != NULL;
    }
    if (!setting) {
        return mst_lib_refuse(err, name, "no such setting");
    }
    if (!value) {
        *out = setting->standard;
        return MUSTER_OK;
    }
    if (mst_setting_parse(setting, value, out, error, sizeof(error)) != MUSTER_OK) {
        return mst_lib_refuse(err, "environment", "%s", error);
    }
    return MUSTER_OK;
}

static muster_status read_number(struct mst_option *option, struct muster_error *err)
{
    const struct mst_setting *setting = mst_setting_find(option->name);
    bool never = option->given < 0 && option->how & MST_OPTION_NEVER;
    bool set = false;
    muster_status status;

    if (option->given != 0) {
        option->by = MST_BY_OPTION;
        option->value = never ? -1 : option->given;
        if (setting && option->value >= setting->least && option->value <= setting->most) {
            return MUSTER_OK;
        }
        return mst_lib_refuse(err, option->name, "%" PRId64 " is not from %" PRId64 " to %" PRId64,
                              option->value, setting ? setting->least : 0,
                              setting ? setting->most : 0);
    }
    status = mst_lib_setting(option->name, &option->value, &set, err);
    option->by = set ? MST_BY_ENVIRONMENT : MST_BY_DEFAULT;
    if (!set && option->how & MST_OPTION_SAID) {
        option->value = 0;
    }
    return status;
}

muster_status mst_lib_numbers(struct mst_option *options, size_t count, struct muster_error *err)
{
    for (struct mst_option *one = options; one < options + count; one++) {
        muster_status status = read_number(one, err);
        int64_t wide = one->value;
        int32_t narrow = (int32_t)wide;

        if (status != MUSTER_OK) {
            return status;
        }
        wide *= one->how & MST_OPTION_NS ? (int64_t)NS_PER_MS : 1;
        if (one->size > 0) {
            memcpy(one->field, one->size == sizeof(narrow) ? (void *)&narrow : &wide, one->size);
        }
    }
    return MUSTER_OK;
}
