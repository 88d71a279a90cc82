/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_REPLICA_PART_H
#define MST_SERVICE_SERVER_REPLICA_PART_H

/* A replica of the service, shared by the files of this folder. */

#include "service/server/journal_disk.h"
#include "service/server/links.h"
#include "service/server/replica.h"

#define SEEN_MAX MST_UV_LINKS_PEERS_MAX
#define ADDRESSES_ROOM ((MST_REPLICA_SERVERS_MAX + 1u) * MST_REPLICA_ADDRESS_ROOM)

/* A replica that could be a member. */
struct seen {
    struct mst_uv_links_peer peer;
    uint64_t until_ns; /* it counts as present */
};

struct mst_uv_replica {
    struct mst_mem mem;
    struct mst_uv_log *lines;
    uv_loop_t loop;   /* of the links */
    uv_poll_t wake;   /* of the main loop: that one has something to do */
    uv_timer_t timer; /* of ours, while a commit waits */
    struct mst_journal_disk *disk;
    struct mst_replica_log *log;
    struct mst_replica *machine; /* NULL: it is not known yet whether it founds a group */
    struct mst_uv_links *links;
    struct mst_journal *journal;
    struct mst_core *core; /* the journal's */
    char self[MST_REPLICA_ADDRESS_ROOM];
    char list[ADDRESSES_ROOM]; /* as it was given */
    unsigned voters;
    uint32_t election_ms;
    uint64_t lease_ns;
    bool member; /* what our hello says */

    enum mst_uv_replica_role role;
    bool unwritten; /* the machine may have something to write */
    bool unapplied; /* or to apply */
    bool moved, yields, differs, stopping;
    uint64_t given;     /* the last entry of the journal; 0: none waits */
    uint64_t committed; /* the last of our own */
    uint64_t digested;  /* inputs, at the last digest */
    uint64_t digest_ns; /* of the next one at the earliest */
    bool too_large;     /* for a digest: a line said so */
    uint64_t voters_ns; /* of the next look */
    struct mst_histogram commits;
    struct seen seen[SEEN_MAX];
    char addresses[ADDRESSES_ROOM]; /* for clients */
};

/* The next address of a list with commas, and moves `*list` behind it. NULL: there is none. */
const char *mst_uv_next_address(const char **list, size_t *size);
bool mst_uv_is_address(const char *address, const char *at, size_t size);

#endif
