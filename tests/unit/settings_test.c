/* SPDX-License-Identifier: Apache-2.0 */
/* settings.def, status.def and commands.def: the rows, and how a value is read from text.
 *
 * behaviour: program / Help, flags, settings */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/command.h"
#include "proto/limits.h"
#include "proto/settings.h"
#include "proto/status.h"

static const struct mst_setting *row(const char *name)
{
    const struct mst_setting *setting = mst_setting_find(name);

    assert_non_null(setting);
    return setting;
}

static void assert_reads(const char *name, const char *text, int64_t expected)
{
    char error[200] = "untouched";
    int64_t value = -77;

    assert_int_equal(mst_setting_parse(row(name), text, &value, error, sizeof(error)), MUSTER_OK);
    assert_int_equal(value, expected);
    assert_string_equal(error, "untouched");
}

static void assert_refuses(const char *name, const char *text, const char *expected)
{
    char error[200] = "";
    int64_t value = -77;

    assert_int_equal(mst_setting_parse(row(name), text, &value, error, sizeof(error)),
                     MUSTER_EINVAL);
    assert_int_equal(value, -77);
    if (expected) {
        assert_string_equal(error, expected);
    }
}

/* Every setting has a help text and is found by its name. */
static void rows_are_found_by_name(void **state)
{
    (void)state;
    assert_int_equal(row("lease")->standard, 10000);
    assert_ptr_equal(row("max-restarts"), row("max_restarts"));
    assert_null(mst_setting_find("leas"));
    assert_null(mst_setting_find("leases"));
    assert_null(mst_setting_find(""));
    for (size_t i = 0; i < mst_setting_count; i++) {
        assert_ptr_equal(mst_setting_find(mst_settings[i].name), &mst_settings[i]);
        assert_true(strlen(mst_settings[i].help) > 0);
        assert_true(mst_settings[i].least <= mst_settings[i].most);
    }
}

/* Every setting has a default that its own limits allow. */
static void defaults_are_allowed(void **state)
{
    (void)state;
    for (size_t i = 0; i < mst_setting_count; i++) {
        const struct mst_setting *setting = &mst_settings[i];
        char error[200];
        int64_t value = 0;

        if (setting->unit == MST_UNIT_TEXT || setting->unit == MST_UNIT_FLAG) {
            continue;
        }
        assert_int_equal(
            mst_setting_parse(setting, setting->standard_text, &value, error, sizeof(error)),
            MUSTER_OK);
        assert_int_equal(value, setting->standard);
    }
    assert_int_equal(mst_limits_default.key_bytes_max, row("key_bytes_max")->standard);
    assert_int_equal(mst_limits_default.frame_bytes_max, row("frame_bytes_max")->standard);
    assert_true(mst_limits_default.frame_bytes_max >= mst_limits_default.result_bytes_max);
}

/* Durations like 500ms and 10s are read, within the limits of the setting; anything else is
 * refused with what would be. */
static void durations(void **state)
{
    (void)state;
    assert_reads("lease", "1500", 1500);
    assert_reads("lease", "500ms", 500);
    assert_reads("lease", "10s", 10000);
    assert_reads("lease", "2m", 120000);
    assert_reads("lease", "1h", 3600000);
    assert_refuses("lease", "49",
                   "setting lease: '49' is no duration (500ms, 10s, 2m) from 50 to 86400000");
    assert_refuses("lease", "1\n2",
                   "setting lease: '1\\x0a2' is no duration (500ms, 10s, 2m) from 50 to 86400000");
    assert_refuses("lease", "25h", NULL);
    assert_refuses("lease", "10 s", NULL);
    assert_refuses("lease", "s", NULL);
    assert_refuses("lease", "", NULL);
    assert_refuses("lease", "-1s", NULL);
    assert_refuses("lease", "1k", NULL);
    assert_refuses("lease", "99999999999999999999", NULL);
    assert_refuses("lease", "9223372036854775807h", NULL);
}

/* Sizes like 64k are read, within the limits of the setting; anything else is refused with what
 * would be. */
static void sizes(void **state)
{
    (void)state;
    assert_reads("value_bytes_max", "4096", 4096);
    assert_reads("value_bytes_max", "64k", 65536);
    assert_reads("value_bytes_max", "16m", 16777216);
    assert_reads("job_bytes_max", "2g", 2147483648);
    assert_refuses("value_bytes_max", "17m",
                   "setting value_bytes_max: '17m' is no size (4096, 64k, 16m) from 1024 to "
                   "16777216");
    assert_refuses("value_bytes_max", "1s", NULL);
    assert_refuses("value_bytes_max", "0x1000", NULL);
}

/* Numbers and places are read, within the limits of the setting; anything else is refused with
 * what would be. */
static void counts_and_places(void **state)
{
    (void)state;
    assert_reads("index", "-1", -1);
    assert_reads("index", "0", 0);
    assert_reads("index", "007", 7);
    assert_refuses("index", "-2", "setting index: '-2' is no number from -1 to 1000000");
    assert_refuses("index", "--1", NULL);
    assert_refuses("index", "+1", NULL);
    assert_refuses("nproc", "0", "setting nproc: '0' is no number from 1 to 65536");
    assert_refuses("nproc", "4k", NULL);
    assert_reads("interrupt_signal", "10", 10);
    assert_refuses("interrupt_signal", "65", NULL);
}

/* A flag's value is read; anything else is refused with what would be. */
static void flags(void **state)
{
    (void)state;
    assert_reads("core", "yes", 1);
    assert_reads("core", "on", 1);
    assert_reads("core", "true", 1);
    assert_reads("core", "1", 1);
    assert_reads("core", "no", 0);
    assert_reads("core", "off", 0);
    assert_reads("core", "false", 0);
    assert_reads("core", "0", 0);
    assert_refuses("core", "maybe", "setting core: 'maybe' is neither yes nor no");
    assert_refuses("core", "", NULL);
    assert_refuses("core", "YES", NULL);
}

/* A choice is one of its words; anything else is refused with what would be. */
static void choices(void **state)
{
    (void)state;
    assert_reads("grow", "check", 0);
    assert_reads("grow", "fault", 1);
    assert_reads("grow", "off", 2);
    assert_refuses("grow", "never", "setting grow: 'never' is not one of check, fault, off");
    assert_refuses("grow", "", NULL);
    assert_refuses("grow", "of", NULL);
    assert_refuses("grow", "fault,", NULL);
    assert_refuses("grow", "check, fault", NULL);
}

/* Every command has a name. */
static void commands(void **state)
{
    (void)state;
    assert_false(mst_command_known(0));
    assert_true(mst_command_known(MST_OPEN));
    assert_true(mst_command_known(MST_LOST));
    assert_false(mst_command_known(MST_DELETE_PREFIX + 1));
    assert_false(mst_command_known(UINT32_MAX));
    assert_string_equal(mst_command_name(MST_ROUND_MEMBERS), "round_members");
    assert_string_equal(mst_command_name((enum mst_command)0), "?");
    assert_true(mst_command_writes(MST_WRITE));
    assert_false(mst_command_waits(MST_WRITE));
    assert_true(mst_command_waits(MST_WATCH));
    assert_false(mst_command_writes(MST_WATCH));
}

/* Every status has a name. */
static void statuses(void **state)
{
    (void)state;
    assert_string_equal(mst_status_name(MUSTER_ETIMEDOUT), "MUSTER_ETIMEDOUT");
    assert_string_equal(mst_status_text(MUSTER_ETIMEDOUT), "timed out");
    assert_string_equal(mst_status_name((muster_status)-999), "MUSTER_?");
    assert_string_equal(mst_status_text((muster_status)-999), "unknown status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_found_by_name),
        cmocka_unit_test(defaults_are_allowed),
        cmocka_unit_test(durations),
        cmocka_unit_test(sizes),
        cmocka_unit_test(counts_and_places),
        cmocka_unit_test(flags),
        cmocka_unit_test(choices),
        cmocka_unit_test(commands),
        cmocka_unit_test(statuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
