/* SPDX-License-Identifier: Apache-2.0 */
/* A driver whose endpoint is a name: which of its addresses is tried. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/shell/driver/driver.h"
#include "failing_mem.h"
#include "net/lookup.h"

enum { TURNS_MAX = 8 };

static uint32_t turns[TURNS_MAX]; /* of each attempt */
static unsigned attempts;
static int peer; /* of the connection; -1: nobody listens */
static bool known = true, accepted = true;

/* ---- a name that is known at once ---- */

static char answer;

/* NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's names */
struct mst_lookup *__wrap_mst_lookup_start(const struct mst_address *address);
int __wrap_mst_lookup_fd(const struct mst_lookup *lookup);
bool __wrap_mst_lookup_is_over(const struct mst_lookup *lookup);
const char *__wrap_mst_lookup_take(const struct mst_lookup *lookup, uint32_t turn,
                                   struct mst_address *address);
void __wrap_mst_lookup_drop(struct mst_lookup *lookup);
int __wrap_mst_endpoint_connect(const struct mst_address *address, bool hurry, bool *done_out,
                                const char **why_out);

struct mst_lookup *__wrap_mst_lookup_start(const struct mst_address *address)
{
    (void)address;
    return (struct mst_lookup *)(void *)&answer;
}

int __wrap_mst_lookup_fd(const struct mst_lookup *lookup)
{
    (void)lookup;
    return -1;
}

bool __wrap_mst_lookup_is_over(const struct mst_lookup *lookup)
{
    (void)lookup;
    return known;
}

const char *__wrap_mst_lookup_take(const struct mst_lookup *lookup, uint32_t turn,
                                   struct mst_address *address)
{
    (void)lookup;
    (void)address;
    assert_true(attempts < TURNS_MAX);
    turns[attempts++] = turn;
    return NULL;
}

void __wrap_mst_lookup_drop(struct mst_lookup *lookup)
{
    (void)lookup;
}

int __wrap_mst_endpoint_connect(const struct mst_address *address, bool hurry, bool *done_out,
                                const char **why_out)
{
    int ends[2];

    (void)address;
    (void)hurry;
    *why_out = NULL;
    if (peer < 0) {
        errno = ECONNREFUSED;
        return -1;
    }
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    peer = ends[1];
    *done_out = accepted;
    return ends[0];
}
/* NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming) */

/* ---- */

static void attention(void *ctx, uint64_t now_ns)
{
    (void)ctx;
    (void)now_ns;
}

/* The next attempt: when it is due, and the name is looked up. */
static void attempt(struct mst_driver *driver, uint64_t *now_ns)
{
    uint64_t deadline_ns = mst_client_deadline_ns(mst_driver_client(driver));

    *now_ns = deadline_ns != UINT64_MAX && deadline_ns > *now_ns ? deadline_ns : *now_ns;
    mst_driver_turn(driver, *now_ns);
    mst_driver_ready(driver, *now_ns, POLLIN);
}

static struct mst_driver *begin(struct failing_mem *memory, uint64_t now_ns)
{
    struct mst_driver_config config = {.client = {.seed = 1,
                                                  .open = {.token = {.high = 7, .low = 8},
                                                           .job = mst_slice_text("j"),
                                                           .role = MST_ROLE_OBSERVER,
                                                           .host = mst_slice_text("here"),
                                                           .node = MST_NODE_NONE},
                                                  .limits = mst_limits_default},
                                       .attention = attention};
    struct mst_driver *driver;
    char error[256];

    failing_mem_init(memory, 0);
    assert_int_equal(mst_endpoints_parse(&config.endpoints, "somewhere.example:7000", true, error,
                                         sizeof(error)),
                     MUSTER_OK);
    assert_int_equal(mst_driver_new(&driver, &config, &memory->mem), MUSTER_OK);
    mst_client_start(mst_driver_client(driver), now_ns);
    return driver;
}

/* Each failure is the next address's turn; where there was a service, it is looked for again. */
static void a_name_is_tried_at_one_address_after_the_other(void **state)
{
    static const uint32_t expected[] = {0, 1, 2, 2, 3};
    struct failing_mem memory;
    uint64_t now_ns = 1;
    struct mst_driver *driver = begin(&memory, now_ns);

    (void)state;
    peer = -1;
    attempt(driver, &now_ns);
    attempt(driver, &now_ns);
    assert_int_equal(mst_driver_socket(driver), -1);
    peer = 0;
    attempt(driver, &now_ns);
    assert_true(mst_driver_socket(driver) >= 0);
    (void)close(peer);
    peer = -1;
    mst_driver_ready(driver, now_ns, POLLIN); /* which says that it is closed */
    assert_int_equal(mst_driver_socket(driver), -1);
    attempt(driver, &now_ns);
    attempt(driver, &now_ns);
    assert_int_equal(attempts, sizeof(expected) / sizeof(expected[0]));
    for (unsigned i = 0; i < attempts; i++) {
        assert_int_equal(turns[i], expected[i]);
    }
    mst_driver_free(driver);
    assert_int_equal(memory.live, 0);
}

static void says_awaited(const struct mst_driver *driver, const char *expected)
{
    char line[256];
    struct mst_text text = mst_text_in(line, sizeof(line));

    mst_driver_say_awaited(driver, &text);
    assert_string_equal(line, expected);
}

static void what_an_attempt_waits_for_has_a_name(void **state)
{
    struct failing_mem memory;
    uint64_t now_ns = 1;
    struct mst_driver *driver = begin(&memory, now_ns);

    (void)state;
    attempts = 0;
    says_awaited(driver, "");
    known = false;
    peer = 0;
    attempt(driver, &now_ns);
    says_awaited(driver, "connecting to somewhere.example:7000: the name service does not answer");
    known = true;
    accepted = false;
    mst_driver_ready(driver, now_ns, POLLIN);
    says_awaited(driver, "connecting to somewhere.example:7000: it does not answer");
    mst_driver_ready(driver, now_ns, POLLOUT);
    says_awaited(driver, "what listens there accepts, but does not answer");
    (void)close(peer);
    accepted = true;
    mst_driver_free(driver);
    assert_int_equal(memory.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_tried_at_one_address_after_the_other),
        cmocka_unit_test(what_an_attempt_waits_for_has_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
