/* SPDX-License-Identifier: Apache-2.0 */
/* What `muster status` says of answers that a test cannot wait for, or that are many. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/commands.h"
#include "cli/print.h"
#include "client/shell/items.h"
#include "proto/run_keys.h"
#include "view/items.h"

static char printed[4096];

/* What the service answers. */
static struct {
    struct mst_item job, fault;
    struct mst_slice replicas;
    struct mst_item place; /* the key of a node with a replica */
} service;

/* ---- the rest of the program ---- */

void mst_cli_put(const char *format, ...)
{
    size_t used = strlen(printed);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(printed + used, sizeof printed - used, format, args);
    va_end(args);
}

void mst_cli_tell(const char *format, ...)
{
    fail_msg("%s", format);
}

int mst_cli_fail(const struct mst_cli *cli, const char *format, ...)
{
    (void)cli;
    fail_msg("%s", format);
    return MST_CLI_FAILED;
}

int mst_cli_usage(const struct mst_cli *cli, const char *format, ...)
{
    (void)cli;
    fail_msg("%s", format);
    return MST_CLI_USAGE;
}

int mst_cli_fail_with(const struct mst_cli *cli, const struct muster_error *err)
{
    return mst_cli_fail(cli, "%s", err->text);
}

int64_t mst_cli_number(const struct mst_cli *cli, const char *name)
{
    (void)cli;
    (void)name;
    return 0;
}

int mst_cli_observe(const struct mst_cli *cli, muster_client **out, struct mst_cli_place *place)
{
    (void)cli;
    *out = NULL;
    *place = (struct mst_cli_place){.addr = "unix:/s", .job = "train"};
    return MST_CLI_OK;
}

/* NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's names */
muster_status __wrap_mst_lib_items_collect(muster_client *client, struct mst_request *request,
                                           int64_t timeout_ms, struct mst_items *items,
                                           struct muster_error *err, const char *what);

muster_status __wrap_mst_lib_items_collect(muster_client *client, struct mst_request *request,
                                           int64_t timeout_ms, struct mst_items *items,
                                           struct muster_error *err, const char *what)
{
    (void)client;
    (void)timeout_ms;
    (void)err;
    (void)what;
    *items = (struct mst_items){.items = NULL};
    if (request->command == MST_JOBS) {
        assert_true(mst_items_add(items, &service.job, 1));
        assert_true(mst_items_value(items, service.replicas));
    } else if (request->command == MST_LIST && service.place.name.size > 0 &&
               mst_slice_is(request->list.prefix, MST_RUN_REPLICA_PREFIX)) {
        assert_true(mst_items_add(items, &service.place, 1));
    } else if (request->command == MST_FAULTS && service.fault.number > 0) {
        assert_true(mst_items_add(items, &service.fault, 1));
    }
    return MUSTER_OK;
}
/* NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming) */

static void says(const char *expected)
{
    struct mst_cli cli = {.command = &mst_cli_status};

    printed[0] = '\0';
    assert_int_equal(mst_cli_status.run(&cli), MST_CLI_OK);
    assert_string_equal(printed, expected);
}

/* ---- */

static void eight_of_those_that_are_missing_have_names(void **state)
{
    static const char *const endings[] = {"\n", " and 1 more\n", " and 2 more\n"};
    char expected[1024];

    (void)state;
    memset(&service, 0, sizeof service);
    for (uint32_t i = 0; i < 3; i++) {
        service.job = (struct mst_item){.name = mst_slice_text("train"), .expected = 8 + i};
        (void)snprintf(expected, sizeof expected,
                       "job train: none of %u ranks has joined yet\n"
                       "missing: #0 (never came), #1 (never came), #2 (never came), #3 (never "
                       "came), #4 (never came), #5 (never came), #6 (never came), #7 (never "
                       "came)%s",
                       8 + i, endings[i]);
        says(expected);
    }
}

static void the_generation_says_why_it_began(void **state)
{
    (void)state;
    memset(&service, 0, sizeof service);
    service.job = (struct mst_item){
        .name = mst_slice_text("train"), .number = 2, .since_ms = 1 + 7200000, .total = 1};
    service.fault = (struct mst_item){
        .kind = MST_ITEM_FAULT,
        .number = 1,
        .who = {.index = 3, .rank = 3, .cause = MST_CAUSE_LEASE, .host = mst_slice_text("b3")}};
    says("job train: no rank has joined yet\n"
         "generation 2 for 2 h, 0 of 0 here; 1 restart\n"
         "generation 2 began after rank 3 (#3, node b3) was silent for longer than the lease\n");
}

/* The service has replicas. Status says which leads, how many are here, how far each other one is
 * behind and which is away, and on which node of a run it is, if a key says so; lines of a later
 * version are passed over. Of a single service it says nothing. [program / muster status] */
static void the_replicas_have_a_line(void **state)
{
    const char *head = "job train: none of 1 rank has joined yet\nmissing: #0 (never came)\n";
    char expected[512];

    (void)state;
    memset(&service, 0, sizeof service);
    service.job = (struct mst_item){.name = mst_slice_text("train"), .expected = 1};
    says(head);
    service.replicas = mst_slice_text("process 71 b2\n");
    says(head);
    service.replicas = mst_slice_text("process 71 b2\nfollows 0 b1:7\nleads 0 b2:7\nstandby "
                                      "b1:7\nsleeps 1 b4:7\nfollows x b4:7\nfollows 1 "
                                      "\naway 40 b\033[3:7\n");
    (void)snprintf(expected, sizeof expected,
                   "%sservice: b2:7 leads, 2 of 3 replicas, b1:7 is 0 entries behind, "
                   "b\\x1b[3:7 is away\n",
                   head);
    says(expected);
    service.place = (struct mst_item){.kind = MST_ITEM_KEY,
                                      .name = mst_slice_text(MST_RUN_REPLICA_PREFIX "12"),
                                      .value = mst_slice_text("b1:7")};
    service.replicas = mst_slice_text("leads 0 b2:7\nfollows 1 b1:7");
    (void)snprintf(expected, sizeof expected,
                   "%sservice: b2:7 leads, 2 of 2 replicas, node 12 (b1:7) is 1 entry behind\n",
                   head);
    says(expected);
    service.place.name = mst_slice_text(MST_RUN_REPLICA_PREFIX "x");
    (void)snprintf(expected, sizeof expected,
                   "%sservice: b2:7 leads, 2 of 2 replicas, b1:7 is 1 entry behind\n", head);
    says(expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_of_those_that_are_missing_have_names),
        cmocka_unit_test(the_generation_says_why_it_began),
        cmocka_unit_test(the_replicas_have_a_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
