/* SPDX-License-Identifier: Apache-2.0 */
/* The connections between replicas, on real sockets: two or three links in one process, each with a
 * door of its own as the hub has one.
 *
 * behaviour: replicas.md / Connections between replicas */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>

#include "base/text.h"
#include "failing_mem.h"
#include "net/address.h"
#include "net/channel.h"
#include "os/system.h"
#include "service/server/hub.h"
#include "service/server/links.h"
#include "service/server/links/link.h"

enum { RULES = 7, REPLICAS = 3, LIMIT_MS = 20000, LONGER_THAN_A_BACK_OFF_MS = 1200 };

/* A replica with a hub in front of it. */
struct replica {
    uv_loop_t hub_loop, loop;
    struct mst_uv_hub hub;
    struct mst_uv_log log;
    struct mst_tls_context *tls;
    struct mst_uv_links *links;
    struct mst_mem mem;
    uint64_t last_peer;
    size_t last_bytes;
    uint64_t terms; /* of the last append result */
    unsigned received, connected, lost;
    int log_fd, door;
    char address[MST_ADDRESS_TEXT];
    unsigned char last_byte;
    bool echoes; /* each append is answered */
};

static struct replica replicas[REPLICAS];
static struct mst_secret secret;
static bool secured;

/* ---- what happens ---- */

static void send_result(struct replica *replica, const struct mst_uv_links_peer *peer,
                        uint64_t term)
{
    struct mst_replica_message message = {.type = MST_REPLICA_APPEND_RESULT,
                                          .append_result = {.term = term, .last_index = 1}};
    struct mst_buffer out;

    mst_buffer_init(&out, &replica->mem, 1024);
    assert_int_equal(mst_replica_message_write(&out, &message), MUSTER_OK);
    mst_uv_links_send(replica->links, peer->id, peer->address, mst_buffer_content(&out));
    mst_buffer_fini(&out);
}

static void on_received(void *ctx, const struct mst_uv_links_peer *peer,
                        const struct mst_replica_message *message)
{
    struct replica *replica = ctx;
    struct mst_slice entries = message->append.entries;
    struct mst_replica_entry entry;

    replica->received++;
    replica->last_peer = peer->id;
    if (message->type == MST_REPLICA_APPEND_RESULT) {
        replica->terms = message->append_result.term;
    } else if (message->type == MST_REPLICA_APPEND) {
        assert_true(mst_replica_entry_next(&entries, &entry));
        replica->last_bytes = entry.bytes.size;
        replica->last_byte = ((const unsigned char *)entry.bytes.data)[entry.bytes.size - 1];
        if (replica->echoes) {
            send_result(replica, peer, message->append.term);
        }
    }
}

static void on_connected(void *ctx, const struct mst_uv_links_peer *peer)
{
    struct replica *replica = ctx;

    replica->connected++;
    replica->last_peer = peer->id;
}

static void on_lost(void *ctx, const struct mst_uv_links_peer *peer)
{
    struct replica *replica = ctx;

    replica->lost++;
    replica->last_peer = peer->id;
}

/* ---- the stage ---- */

static void listen_at(struct replica *replica, const char *given)
{
    struct mst_address address;
    socklen_t size = sizeof(address.name);
    int on = 1;

    assert_null(mst_address_parse(&address, mst_slice_text(given)));
    replica->door = socket(address.name.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(replica->door >= 0);
    if (address.kind != MST_ADDRESS_UNIX) {
        assert_int_equal(setsockopt(replica->door, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    }
    assert_int_equal(
        bind(replica->door, (const struct sockaddr *)(const void *)&address.name, address.size), 0);
    assert_int_equal(listen(replica->door, 64), 0);
    snprintf(replica->address, sizeof(replica->address), "%s", given);
    if (address.kind != MST_ADDRESS_UNIX) {
        struct sockaddr_in name = {.sin_port = 0};

        size = sizeof(name);
        assert_int_equal(getsockname(replica->door, (struct sockaddr *)(void *)&name, &size), 0);
        snprintf(replica->address, sizeof(replica->address), "127.0.0.1:%u",
                 (unsigned)ntohs(name.sin_port));
    }
}

static void open_links(struct replica *replica, uint64_t id, const char *run, uint32_t rules)
{
    const struct mst_uv_links_config config = {.loop = &replica->loop,
                                               .log = &replica->log,
                                               .mem = &replica->mem,
                                               .secret = secured ? &secret : NULL,
                                               .run = run,
                                               .address = replica->address,
                                               .id = id,
                                               .rules = rules,
                                               .version = "1.2.3",
                                               .ctx = replica,
                                               .received = on_received,
                                               .connected = on_connected,
                                               .lost = on_lost};
    struct muster_error err;

    if (mst_uv_links_open(&replica->links, &config, &err) != MUSTER_OK) {
        fail_msg("%s", err.text);
    }
    replica->hub.links = replica->links;
}

static void open_replica(struct replica *replica, uint64_t id, const char *address, const char *run,
                         uint32_t rules)
{
    struct mst_uv_service_config config = {.lease_ns = 5 * NS_PER_S,
                                           .limits = mst_limits_default,
                                           .history = 10,
                                           .buffered_bytes_max = 1 << 26};
    struct muster_error err;

    memset(replica, 0, sizeof(*replica));
    replica->mem = mst_system_mem;
    replica->log_fd = memfd_create("log", MFD_CLOEXEC);
    mst_uv_log_init(&replica->log, replica->log_fd, MST_DEBUG, false);
    assert_int_equal(uv_loop_init(&replica->loop), 0);
    assert_int_equal(uv_loop_init(&replica->hub_loop), 0);
    assert_int_equal(
        mst_uv_hub_init(&replica->hub, &replica->hub_loop, &replica->log, &config, &err),
        MUSTER_OK);
    if (secured) {
        assert_int_equal(mst_tls_context_new(&replica->tls, MST_TLS_SERVICE, &secret, &err),
                         MUSTER_OK);
        replica->hub.tls = replica->tls;
    }
    listen_at(replica, address);
    open_links(replica, id, run, rules);
}

static void close_door(struct replica *replica)
{
    if (replica->door >= 0) {
        close(replica->door);
    }
    replica->door = -1;
}

static void close_links(struct replica *replica)
{
    mst_uv_links_close(replica->links);
    replica->links = NULL;
    replica->hub.links = NULL;
    while (uv_run(&replica->loop, UV_RUN_NOWAIT) != 0) {
    }
}

static void close_replica(struct replica *replica)
{
    if (!replica->log_fd) {
        return;
    }
    close_links(replica);
    assert_int_equal(uv_loop_close(&replica->loop), 0);
    close_door(replica);
    mst_uv_hub_drop_all(&replica->hub);
    while (uv_run(&replica->hub_loop, UV_RUN_NOWAIT) != 0) {
    }
    assert_int_equal(uv_loop_close(&replica->hub_loop), 0);
    mst_uv_hub_fini(&replica->hub);
    mst_tls_context_free(replica->tls);
    mst_uv_log_fini(&replica->log);
    close(replica->log_fd);
    memset(replica, 0, sizeof(*replica));
}

static void turn(void)
{
    for (unsigned i = 0; i < REPLICAS; i++) {
        struct replica *replica = &replicas[i];
        int fd;

        if (!replica->log_fd) {
            continue;
        }
        fd = replica->door >= 0 ? accept4(replica->door, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)
                                : -1;
        if (fd >= 0) {
            mst_uv_hub_accept(&replica->hub, fd);
        }
        mst_uv_hub_resume(&replica->hub);
        (void)uv_run(&replica->hub_loop, UV_RUN_NOWAIT);
        mst_uv_hub_turn(&replica->hub);
        (void)uv_run(&replica->loop, UV_RUN_NOWAIT);
        mst_uv_log_flush(&replica->log);
    }
}

static const char *logged(struct replica *replica)
{
    static char text[65536];
    ssize_t size;

    mst_uv_log_flush(&replica->log);
    size = pread(replica->log_fd, text, sizeof(text) - 1, 0);
    text[size > 0 ? size : 0] = '\0';
    return text;
}

#define UNTIL(condition)                                                                           \
    do {                                                                                           \
        uint64_t until_began_ns = mst_system_now_ns();                                             \
        while (!(condition)) {                                                                     \
            turn();                                                                                \
            if (mst_system_now_ns() - until_began_ns > LIMIT_MS * NS_PER_MS) {                     \
                fail_msg("not within %d ms: %s; %s", LIMIT_MS, #condition, logged(&replicas[0]));  \
            }                                                                                      \
        }                                                                                          \
    } while (0)

static void settle(uint64_t ms)
{
    uint64_t began_ns = mst_system_now_ns();

    UNTIL(mst_system_now_ns() - began_ns > ms * NS_PER_MS);
}

static bool has_logged(struct replica *replica, const char *words)
{
    return strstr(logged(replica), words) != NULL;
}

static unsigned times_logged(struct replica *replica, const char *words)
{
    unsigned count = 0;

    for (const char *at = logged(replica); (at = strstr(at, words)) != NULL; at++) {
        count++;
    }
    return count;
}

static void send_append(struct replica *from, uint64_t to, const char *address, size_t size,
                        uint64_t term)
{
    unsigned char *bytes = malloc(size);
    struct mst_replica_entry entry = {.term = term, .type = MST_REPLICA_COMMAND};
    struct mst_replica_message message = {.type = MST_REPLICA_APPEND,
                                          .append = {.term = term, .count = 1, .from = &entry}};
    struct mst_buffer out;

    assert_non_null(bytes);
    memset(bytes, (int)(term & 0xff), size);
    entry.bytes = mst_slice_of(bytes, size);
    mst_buffer_init(&out, &from->mem, MST_REPLICA_MESSAGE_MAX);
    assert_int_equal(mst_replica_message_write(&out, &message), MUSTER_OK);
    mst_uv_links_send(from->links, to, address, mst_buffer_content(&out));
    mst_buffer_fini(&out);
    free(bytes);
}

static void open_two(void)
{
    open_replica(&replicas[0], 1, "127.0.0.1:0", "run", RULES);
    open_replica(&replicas[1], 2, "127.0.0.1:0", "run", RULES);
}

static int close_all(void **state)
{
    (void)state;
    for (unsigned i = 0; i < REPLICAS; i++) {
        close_replica(&replicas[i]);
    }
    secured = false;
    return 0;
}

static void secure(void)
{
    secured = true;
    secret.size = 32;
    memset(secret.bytes, 's', secret.size);
}

/* ---- two replicas ---- */

static void say_and_answer(void)
{
    struct mst_uv_links_peer peers[MST_UV_LINKS_PEERS_MAX];

    replicas[1].echoes = true;
    send_append(&replicas[0], 2, replicas[1].address, 100, 5);
    UNTIL(replicas[0].terms == 5);
    assert_int_equal(replicas[1].received, 1);
    assert_int_equal(replicas[1].last_bytes, 100);
    assert_int_equal(replicas[0].connected, 1);
    assert_int_equal(replicas[1].connected, 1);
    assert_int_equal(mst_uv_links_peers(replicas[1].links, peers), 1);
    assert_int_equal(peers[0].id, 1);
    assert_string_equal(peers[0].address, replicas[0].address);
    assert_string_equal(peers[0].version, "1.2.3");
    assert_string_equal(peers[0].host, "");
    assert_true(mst_uv_links_connected(replicas[0].links, 2));
    assert_false(mst_uv_links_connected(replicas[0].links, 3));
    assert_int_equal(replicas[0].hub.count, 0);
    assert_int_equal(replicas[1].hub.count, 0);
}

/* A replica sends to one with which it has no connection. The message arrives, and the answer comes
 * back on the same connection: the sender accepts nothing. */
static void test_answer(void **state)
{
    (void)state;
    open_two();
    close_door(&replicas[0]);
    say_and_answer();
}

/* The same with a secret: the connection speaks TLS. */
static void test_answer_tls(void **state)
{
    (void)state;
    secure();
    open_two();
    close_door(&replicas[0]);
    say_and_answer();
}

/* Replicas with Unix sockets speak to each other, in plain although there is a secret. */
static void test_unix(void **state)
{
    char folder[] = "/tmp/links-XXXXXX", paths[2][64];

    (void)state;
    secure();
    assert_non_null(mkdtemp(folder));
    for (unsigned i = 0; i < 2; i++) {
        snprintf(paths[i], sizeof(paths[i]), "unix:%s/%u", folder, i);
        open_replica(&replicas[i], i + 1, paths[i], "run", RULES);
    }
    say_and_answer();
    for (unsigned i = 0; i < 2; i++) {
        unlink(paths[i] + 5);
    }
    rmdir(folder);
}

/* The other replica does not listen yet. It is tried again, and reached once it does. */
static void test_retry(void **state)
{
    char address[MST_ADDRESS_TEXT];

    (void)state;
    open_two();
    snprintf(address, sizeof(address), "%s", replicas[1].address);
    close_replica(&replicas[1]);
    mst_uv_links_reach(replicas[0].links, address);
    UNTIL(has_logged(&replicas[0], "replica-unreachable"));
    settle(100); /* some attempts */
    assert_int_equal(times_logged(&replicas[0], "replica-unreachable"), 1);
    open_replica(&replicas[1], 2, address, "run", RULES);
    UNTIL(replicas[0].connected == 1 && replicas[1].connected == 1);
}

/* A peer ends and another one with a new id listens at its address. What is sent to the old id is
 * dropped, and what is sent to the new one arrives. */
static void test_successor(void **state)
{
    char address[MST_ADDRESS_TEXT];

    (void)state;
    open_two();
    snprintf(address, sizeof(address), "%s", replicas[1].address);
    send_append(&replicas[0], 2, address, 10, 1);
    UNTIL(replicas[1].received == 1);
    close_replica(&replicas[1]);
    UNTIL(replicas[0].lost == 1);
    assert_int_equal(replicas[0].last_peer, 2);
    open_replica(&replicas[1], 9, address, "run", RULES);
    while (!mst_uv_links_connected(replicas[0].links, 9)) {
        send_append(&replicas[0], 2, address, 10, 2);
        turn();
    }
    send_append(&replicas[0], 2, address, 10, 2);
    send_append(&replicas[0], 9, address, 10, 3);
    UNTIL(replicas[1].received >= 1);
    assert_int_equal(replicas[1].received, 1);
    assert_int_equal(replicas[1].last_byte, 3);
}

static void exchange_large(void)
{
    open_two();
    replicas[1].echoes = true;
    for (uint64_t term = 1; term <= 3; term++) {
        send_append(&replicas[0], 2, replicas[1].address, MST_REPLICA_ENTRY_MAX, term);
        UNTIL(replicas[0].terms == term);
        assert_int_equal(replicas[1].last_bytes, MST_REPLICA_ENTRY_MAX);
        assert_int_equal(replicas[1].last_byte, term);
    }
}

/* Entries of 4 MiB pass whole. */
static void test_large(void **state)
{
    (void)state;
    exchange_large();
}

/* Entries of 4 MiB pass whole under TLS. */
static void test_large_tls(void **state)
{
    (void)state;
    secure();
    exchange_large();
}

/* A peer reads nothing. What waits for it is bounded, one line says that messages are dropped, and
 * once it reads again another line says how many; then messages arrive as before. */
static void test_slow_reader(void **state)
{
    char address[MST_ADDRESS_TEXT];
    unsigned sent = 0;

    (void)state;
    open_two();
    snprintf(address, sizeof(address), "%s", replicas[1].address);
    send_append(&replicas[0], 2, address, 10, 1);
    UNTIL(replicas[1].received == 1);
    while (!has_logged(&replicas[0], "output-full") && sent < 100) {
        send_append(&replicas[0], 2, address, 1 << 20, 2);
        sent++;
    }
    assert_true(sent < 40);
    send_append(&replicas[0], 2, address, 1 << 20, 2);
    assert_int_equal(times_logged(&replicas[0], "output-full"), 1);
    UNTIL(has_logged(&replicas[0], "messages-dropped"));
    assert_true(has_logged(&replicas[0], "count=2"));
    UNTIL(replicas[1].received == sent); /* the first, and all but the one that found no room */
    send_append(&replicas[0], 2, address, 10, 9);
    UNTIL(replicas[1].last_byte == 9);
    assert_int_equal(replicas[0].lost, 0);
}

/* Three replicas that are to reach each other, themselves included, do so although one has two
 * addresses, and each lists both others once. Then there is peace. */
static void test_three(void **state)
{
    struct mst_uv_links_peer peers[MST_UV_LINKS_PEERS_MAX];
    char list[4 * MST_ADDRESS_TEXT];
    uint64_t last_id;
    bool quiet = false;

    (void)state;
    secure();
    open_two();
    open_replica(&replicas[2], 3, "127.0.0.1:0", "run", RULES);
    mst_text_print(list, sizeof(list), "%s,localhost%s,%s,%s", replicas[0].address,
                   strchr(replicas[0].address, ':'), replicas[1].address, replicas[2].address);
    for (unsigned i = 0; i < REPLICAS; i++) {
        mst_uv_links_reach(replicas[i].links, list);
    }
    for (unsigned i = 0; i < REPLICAS; i++) {
        UNTIL(mst_uv_links_peers(replicas[i].links, peers) == 2);
    }
    assert_int_equal(times_logged(&replicas[0], "refused"), 0);
    for (unsigned tries = 0; tries < 10 && !quiet; tries++) {
        last_id = replicas[0].hub.last_id;
        settle(LONGER_THAN_A_BACK_OFF_MS);
        quiet = replicas[0].hub.last_id == last_id;
    }
    assert_true(quiet);
}

static const struct mst_uv_link *heard_last(const struct mst_uv_links *links)
{
    const struct mst_uv_link *last = NULL;

    for (struct mst_list *at = links->all.next; at != &links->all; at = at->next) {
        const struct mst_uv_link *link = MST_CONTAINER(at, struct mst_uv_link, node);

        last = !last || link->heard > last->heard ? link : last;
    }
    return last;
}

/* Two replicas have dialed each other. A message and its answer share one of the two connections:
 * so the answer acknowledges the message, and no packet does nothing else. */
static void test_same_connection(void **state)
{
    bool asker_dialed, answerer_dialed;

    (void)state;
    open_two();
    mst_uv_links_reach(replicas[0].links, replicas[1].address);
    mst_uv_links_reach(replicas[1].links, replicas[0].address);
    UNTIL(replicas[0].connected == 2 && replicas[1].connected == 2);
    replicas[1].echoes = true;
    for (uint64_t term = 1; term <= 3; term++) {
        send_append(&replicas[0], 2, replicas[1].address, 10, term);
        UNTIL(replicas[0].terms == term);
        asker_dialed = heard_last(replicas[0].links)->target != NULL;
        answerer_dialed = heard_last(replicas[1].links)->target != NULL;
        assert_int_not_equal(asker_dialed, answerer_dialed);
    }
}

/* ---- who is refused ---- */

static void refuse_each_other(const char *run, uint32_t rules, uint64_t id, const char *line)
{
    open_replica(&replicas[0], 1, "127.0.0.1:0", "run", RULES);
    open_replica(&replicas[1], id, "127.0.0.1:0", run, rules);
    mst_uv_links_reach(replicas[0].links, replicas[1].address);
    UNTIL(has_logged(&replicas[0], line) && has_logged(&replicas[1], "replica-refused"));
    assert_int_equal(replicas[0].connected, 0);
    assert_int_equal(replicas[1].connected, 0);
}

/* A replica of another run answers. Both hang up, and say in a line which run each is of. */
static void test_other_run(void **state)
{
    (void)state;
    refuse_each_other("other", RULES, 2, "of run 'other', this one of 'run'");
}

/* A replica of another version answers. Both hang up, and say in a line which versions these are.
 */
static void test_other_rules(void **state)
{
    (void)state;
    refuse_each_other("run", RULES + 1, 2, "muster 1.2.3 (rules 8, protocol 1)");
}

/* A replica with the same id answers: a copied folder. Both hang up, and say so. */
static void test_same_id(void **state)
{
    (void)state;
    refuse_each_other("run", RULES, 1, "has the id 1, which is that of this one");
}

static int dial_raw(const char *text)
{
    struct mst_address address;
    int fd;

    assert_null(mst_address_parse(&address, mst_slice_text(text)));
    fd = socket(address.name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(
        connect(fd, (const struct sockaddr *)(const void *)&address.name, address.size), 0);
    return fd;
}

static bool is_closed(int fd)
{
    unsigned char byte[4096];
    ssize_t got = recv(fd, byte, sizeof(byte), MSG_DONTWAIT);

    return got == 0 || (got < 0 && errno != EAGAIN);
}

/* A stranger sends bytes that are no message. He is refused, and replicas are not disturbed. */
static void test_nonsense(void **state)
{
    static const unsigned char huge[] = {'R', 0xff, 0xff, 0xff, 0x7f, 16, 0, 0, 0};
    int fd;

    (void)state;
    open_two();
    fd = dial_raw(replicas[0].address);
    assert_int_equal(write(fd, huge, sizeof(huge)), sizeof(huge));
    UNTIL(is_closed(fd));
    close(fd);
    UNTIL(has_logged(&replicas[0], "it sends what is no message"));
    say_and_answer();
}

/* A stranger sends half a hello. After 3 s he is refused. */
static void test_half_a_hello(void **state)
{
    static const unsigned char half[] = {'R', 60, 0, 0, 0, 16, 0, 0, 0, 1};
    uint64_t began_ns;
    int fd;

    (void)state;
    open_two();
    began_ns = mst_system_now_ns();
    fd = dial_raw(replicas[0].address);
    assert_int_equal(write(fd, half, sizeof(half)), sizeof(half));
    UNTIL(is_closed(fd));
    assert_true(mst_system_now_ns() - began_ns >= (MST_UV_LINKS_GREETING_MS - 50) * NS_PER_MS);
    close(fd);
    assert_true(has_logged(&replicas[0], "it says no hello"));
}

/* Many strangers say nothing behind the first byte. The oldest give way, and a replica is heard. */
static void test_many_strangers(void **state)
{
    int fds[2 * MST_UV_LINKS_STRANGERS_MAX];

    (void)state;
    open_two();
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        fds[i] = dial_raw(replicas[1].address);
        assert_int_equal(write(fds[i], "R", 1), 1);
        turn();
    }
    UNTIL(is_closed(fds[0]));
    assert_true(has_logged(&replicas[1], "too many say no hello"));
    say_and_answer();
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        close(fds[i]);
    }
}

/* One without the secret dials a replica that has one. It is refused in the handshake, and the
 * links never see it. */
static void test_no_secret(void **state)
{
    (void)state;
    open_replica(&replicas[0], 1, "127.0.0.1:0", "run", RULES);
    secure();
    open_replica(&replicas[1], 2, "127.0.0.1:0", "run", RULES);
    mst_uv_links_reach(replicas[0].links, replicas[1].address);
    UNTIL(has_logged(&replicas[0], "replica-unreachable"));
    assert_true(has_logged(&replicas[1], "speaks no TLS"));
    assert_int_equal(replicas[1].connected, 0);
}

/* A service that is no replica is dialed: it refuses, and a line says that it is not reached. */
static void test_no_replica(void **state)
{
    (void)state;
    open_two();
    replicas[1].hub.links = NULL;
    mst_uv_links_reach(replicas[0].links, replicas[1].address);
    UNTIL(has_logged(&replicas[0], "replica-unreachable"));
    assert_true(has_logged(&replicas[1], "no dialect begins with the byte 0x52"));
    replicas[1].hub.links = replicas[1].links;
}

/* A listener that answers nothing is dialed. After 3 s the attempt ends, and a line says why. */
static void test_silent_listener(void **state)
{
    struct replica deaf = {.door = -1};

    (void)state;
    open_replica(&replicas[0], 1, "127.0.0.1:0", "run", RULES);
    listen_at(&deaf, "127.0.0.1:0");
    mst_uv_links_reach(replicas[0].links, deaf.address);
    UNTIL(has_logged(&replicas[0], "it says no hello"));
    close_door(&deaf);
}

/* ---- cuts, and memory ---- */

/* The connection is cut in the middle of a message of 4 MiB. The rest is dropped, both learn that
 * the other is lost, and a new connection carries the next message. */
static void test_cut(void **state)
{
    char address[MST_ADDRESS_TEXT];

    (void)state;
    open_two();
    snprintf(address, sizeof(address), "%s", replicas[1].address);
    send_append(&replicas[0], 2, address, 10, 1);
    UNTIL(replicas[1].received == 1);
    send_append(&replicas[0], 2, address, MST_REPLICA_ENTRY_MAX, 2);
    close_links(&replicas[0]);
    UNTIL(replicas[1].lost == 1);
    assert_int_equal(replicas[1].received, 1);
    open_links(&replicas[0], 1, "run", RULES);
    send_append(&replicas[0], 2, address, 10, 3);
    UNTIL(replicas[1].received == 2);
    assert_int_equal(replicas[1].last_byte, 3);
}

/* A peer dials again before the end of its older connection was noticed: the older one is closed,
 * and the peer was never lost. */
static void test_again(void **state)
{
    (void)state;
    open_two();
    open_replica(&replicas[2], 1, "127.0.0.1:0", "run", RULES);
    mst_uv_links_reach(replicas[0].links, replicas[1].address);
    UNTIL(replicas[1].connected == 1);
    mst_uv_links_reach(replicas[0].links, NULL);
    mst_uv_links_reach(replicas[2].links, replicas[1].address);
    UNTIL(replicas[1].connected == 2 && replicas[0].lost == 1);
    assert_int_equal(replicas[1].lost, 0);
    assert_true(mst_uv_links_connected(replicas[1].links, 1));
}

/* Memory fails at each allocation in turn. Nothing is leaked, and once there is memory the message
 * arrives. */
static void test_no_memory(void **state)
{
    (void)state;
    for (size_t nth = 1;; nth++) {
        struct failing_mem memory;
        bool failed;

        open_two();
        failing_mem_init(&memory, 0);
        close_links(&replicas[0]);
        replicas[0].mem = memory.mem;
        open_links(&replicas[0], 1, "run", RULES);
        memory.fail_at = memory.count + nth;
        for (unsigned i = 0; i < 100 && replicas[0].received == 0; i++) {
            send_append(&replicas[1], 1, replicas[0].address, 10, 1);
            turn();
        }
        failed = memory.failed;
        memory.fail_at = 0;
        UNTIL(replicas[0].received > 0 ||
              (send_append(&replicas[1], 1, replicas[0].address, 10, 1), false));
        close_replica(&replicas[0]);
        close_replica(&replicas[1]);
        assert_int_equal(memory.live, 0);
        if (!failed) {
            break;
        }
    }
}

/* There is no memory for the rest of a message of which the socket took a part. The connection
 * ends, since its peer would take what follows for that rest, and messages pass on the next one. */
static void test_no_memory_for_a_rest(void **state)
{
    struct failing_mem memory;
    char address[MST_ADDRESS_TEXT];
    unsigned sent = 0;

    (void)state;
    open_two();
    failing_mem_init(&memory, 0);
    close_links(&replicas[0]);
    replicas[0].mem = memory.mem;
    open_links(&replicas[0], 1, "run", RULES);
    snprintf(address, sizeof(address), "%s", replicas[1].address);
    UNTIL(replicas[1].last_byte == 1 || (send_append(&replicas[0], 2, address, 10, 1), false));
    while (!has_logged(&replicas[0], "out of memory") && sent < 40) {
        memory.fail_at = memory.count + 2; /* behind the message itself */
        send_append(&replicas[0], 2, address, 1 << 20, 2);
        sent++;
    }
    assert_true(sent < 40);
    memory.fail_at = 0;
    UNTIL(replicas[1].last_byte == 9 || (send_append(&replicas[0], 2, address, 10, 9), false));
    close_replica(&replicas[0]);
    close_replica(&replicas[1]);
    assert_int_equal(memory.live, 0);
}

/* An address that makes no sense is refused in a line that names it. */
static void test_address(void **state)
{
    const struct mst_uv_links_config config = {
        .mem = &mst_system_mem, .run = "run", .address = "nowhere", .version = ""};
    struct mst_uv_links *links = NULL;
    struct muster_error err;

    (void)state;
    assert_int_equal(mst_uv_links_open(&links, &config, &err), MUSTER_EINVAL);
    assert_string_equal(err.text, "the address of this replica, 'nowhere', has no port "
                                  "(unix:/path, HOST:PORT or [::1]:PORT)");
    open_two();
    mst_uv_links_reach(replicas[0].links, "nowhere,127.0.0.1:1");
    assert_true(has_logged(&replicas[0], "address-left-out address=nowhere"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_answer, close_all),
        cmocka_unit_test_teardown(test_answer_tls, close_all),
        cmocka_unit_test_teardown(test_unix, close_all),
        cmocka_unit_test_teardown(test_retry, close_all),
        cmocka_unit_test_teardown(test_successor, close_all),
        cmocka_unit_test_teardown(test_large, close_all),
        cmocka_unit_test_teardown(test_large_tls, close_all),
        cmocka_unit_test_teardown(test_slow_reader, close_all),
        cmocka_unit_test_teardown(test_three, close_all),
        cmocka_unit_test_teardown(test_same_connection, close_all),
        cmocka_unit_test_teardown(test_other_run, close_all),
        cmocka_unit_test_teardown(test_other_rules, close_all),
        cmocka_unit_test_teardown(test_same_id, close_all),
        cmocka_unit_test_teardown(test_nonsense, close_all),
        cmocka_unit_test_teardown(test_half_a_hello, close_all),
        cmocka_unit_test_teardown(test_many_strangers, close_all),
        cmocka_unit_test_teardown(test_no_secret, close_all),
        cmocka_unit_test_teardown(test_no_replica, close_all),
        cmocka_unit_test_teardown(test_silent_listener, close_all),
        cmocka_unit_test_teardown(test_cut, close_all),
        cmocka_unit_test_teardown(test_again, close_all),
        cmocka_unit_test_teardown(test_no_memory, close_all),
        cmocka_unit_test_teardown(test_no_memory_for_a_rest, close_all),
        cmocka_unit_test_teardown(test_address, close_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
