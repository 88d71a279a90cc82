/* SPDX-License-Identifier: Apache-2.0 */
/* behaviour: fronts / The agent's side */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "net/loopback_peer.h"

/* A connection of this process to itself. */
static void connect_here(int *client, int *server)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof here;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)(const void *)&here, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)(void *)&here, &size), 0);
    assert_int_equal(connect(*client, (const struct sockaddr *)(const void *)&here, size), 0);
    *server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(*server >= 0);
    (void)close(listener);
}

/* A process connects to 127.0.0.1. Its user and the inode of its socket are known. Once it has
 * closed the connection it is not: the kernel would name root. */
static void the_user_of_a_connection_is_known_while_it_is_open(void **state)
{
    int asks = mst_loopback_peer_open(), client, server;
    struct mst_loopback_peer peer = {.user = (uid_t)-1};
    struct stat of_client;

    (void)state;
    assert_true(asks >= 0);
    connect_here(&client, &server);
    assert_true(mst_loopback_peer(asks, server, &peer));
    assert_int_equal(peer.user, geteuid());
    assert_int_equal(fstat(client, &of_client), 0);
    assert_int_equal(peer.inode, of_client.st_ino);
    (void)close(client);
    assert_false(mst_loopback_peer(asks, server, &peer));
    (void)close(server);
    (void)close(asks);
}

/* What is no connection over IPv4 has no such user. */
static void what_is_no_connection_has_no_user(void **state)
{
    int asks = mst_loopback_peer_open(), pair[2];
    struct mst_loopback_peer peer;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_false(mst_loopback_peer(asks, pair[0], &peer));
    (void)close(pair[0]);
    (void)close(pair[1]);
    (void)close(asks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_user_of_a_connection_is_known_while_it_is_open),
        cmocka_unit_test(what_is_no_connection_has_no_user),
    };

    return cmocka_run_group_tests_name("loopback peer", tests, NULL, NULL);
}
