/* SPDX-License-Identifier: Apache-2.0 */
#include "service/replica/server.h"

#include <string.h>

#include "base/panic.h"

/* u8 format, u64 count, then of each: u64 id, the address and a NUL, u8 role; zeros to 8 bytes. */
enum { FORMAT = 1, HEAD = 9, SERVER_FIXED = 10, ALIGN = 8 };

#define ID_MAX (UINT64_MAX / 2)

const struct mst_replica_server *mst_replica_servers_find(const struct mst_replica_servers *servers,
                                                          uint64_t id)
{
    for (size_t i = 0; i < servers->count; i++) {
        if (servers->of[i].id == id) {
            return &servers->of[i];
        }
    }
    return NULL;
}

size_t mst_replica_servers_voters(const struct mst_replica_servers *servers)
{
    size_t voters = 0;

    for (size_t i = 0; i < servers->count; i++) {
        voters += servers->of[i].role == MST_REPLICA_VOTER;
    }
    return voters;
}

static uint64_t number_at(const unsigned char *at)
{
    uint64_t number = 0;

    for (unsigned i = 0; i < 8; i++) {
        number |= (uint64_t)at[i] << (8 * i);
    }
    return number;
}

static void number_to(unsigned char *at, uint64_t number)
{
    for (unsigned i = 0; i < 8; i++) {
        at[i] = (unsigned char)(number >> (8 * i));
    }
}

/* The bytes of the text at the start of `rest`, without its NUL; 0: none that an address may be. */
static size_t address_at(const unsigned char *at, size_t left)
{
    size_t size = 0;

    while (size < left && size < MST_REPLICA_ADDRESS_ROOM && at[size] != 0) {
        size++;
    }
    return size < left && size < MST_REPLICA_ADDRESS_ROOM ? size : 0;
}

static bool server_read(const unsigned char **at, size_t *left, struct mst_replica_server *out)
{
    size_t size;

    if (*left < SERVER_FIXED) {
        return false;
    }
    out->id = number_at(*at);
    size = address_at(*at + 8, *left - 8);
    if (out->id == 0 || out->id > ID_MAX || size == 0 || *left < SERVER_FIXED + size) {
        return false;
    }
    memcpy(out->address, *at + 8, size);
    out->address[size] = '\0';
    switch ((*at)[8 + size + 1]) {
    case MST_REPLICA_STANDBY:
        out->role = MST_REPLICA_STANDBY;
        break;
    case MST_REPLICA_VOTER:
        out->role = MST_REPLICA_VOTER;
        break;
    default:
        return false;
    }
    *at += SERVER_FIXED + size;
    *left -= SERVER_FIXED + size;
    return true;
}

static bool is_new(const struct mst_replica_servers *before, const struct mst_replica_server *one)
{
    for (size_t i = 0; i < before->count; i++) {
        if (before->of[i].id == one->id ||
            mst_slice_is(mst_slice_text(one->address), before->of[i].address)) {
            return false;
        }
    }
    return true;
}

bool mst_replica_configuration_read(struct mst_slice bytes, struct mst_replica_servers *out)
{
    const unsigned char *at = bytes.data;
    size_t left = bytes.size;
    uint64_t count;

    out->count = 0;
    if (left < HEAD || left % ALIGN != 0 || at[0] != FORMAT) {
        return false;
    }
    count = number_at(at + 1);
    if (count == 0 || count > MST_REPLICA_SERVERS_MAX) {
        return false;
    }
    at += HEAD;
    left -= HEAD;
    for (; count > 0; count--) {
        struct mst_replica_server *server = &out->of[out->count];

        if (!server_read(&at, &left, server) || !is_new(out, server)) {
            return false;
        }
        out->count++;
    }
    for (size_t i = 0; i < left; i++) {
        if (at[i] != 0) {
            return false;
        }
    }
    return left < ALIGN;
}

size_t mst_replica_configuration_bytes(const struct mst_replica_servers *servers)
{
    size_t size = HEAD;

    for (size_t i = 0; i < servers->count; i++) {
        size += SERVER_FIXED + strlen(servers->of[i].address);
    }
    return (size + ALIGN - 1) / ALIGN * ALIGN;
}

void mst_replica_configuration_write(unsigned char *at, const struct mst_replica_servers *servers)
{
    size_t size = mst_replica_configuration_bytes(servers);

    MST_ASSERT(servers->count > 0 && servers->count <= MST_REPLICA_SERVERS_MAX);
    memset(at, 0, size);
    at[0] = FORMAT;
    number_to(at + 1, servers->count);
    at += HEAD;
    for (size_t i = 0; i < servers->count; i++) {
        const struct mst_replica_server *server = &servers->of[i];
        size_t length = strlen(server->address);

        number_to(at, server->id);
        memcpy(at + 8, server->address, length);
        at[8 + length + 1] = (unsigned char)server->role;
        at += SERVER_FIXED + length;
    }
}
