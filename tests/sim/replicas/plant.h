/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_REPLICAS_PLANT_H
#define SIM_REPLICAS_PLANT_H

/* Bugs, one of which the environment variable MUSTER_SIM_PLANT plants, to see which property finds
 * it: those of a shell into the one here, those of the product into a copy of its files
 * (planted.cmake). */

/* X(NAME, word, words) */
#define REP_PLANTS(X)                                                                              \
    X(NONE, "none", "no bug")                                                                      \
    X(REPLY_FIRST, "reply-first", "a reply leaves before its entry is committed")                  \
    X(READ_FREE, "read-free", "a turn without a lasting record is answered without an entry")      \
    X(OLDER_TERM, "older-term", "a reply leaves when its entry is committed in any term")          \
    X(NO_RESUME, "no-resume", "a new leader serves without a RESUME")                              \
    X(SHORT_RESUME, "short-resume", "RESUME leaves what was left of the leases")                   \
    X(VOTE_UNWRITTEN, "vote-unwritten", "a vote is sent before it is on the disk")                 \
    X(TRUNCATED, "truncated", "entries replace the one in front of them, which is committed")      \
    X(UNCUT, "uncut", "a batch is not cut in front of a configuration")                            \
    X(DEAD_REMOVED, "dead-removed", "a dead voter is removed before another one takes its place")  \
    X(FOLLOWER_SERVES, "follower-serves", "a follower answers reads from its core")                \
    X(DEPOSED_STAYS, "deposed-stays", "a deposed leader goes on as a follower with its core")      \
    X(BOOT_KEPT, "boot-kept", "a folder of another boot is kept without sync")                     \
    X(DIGEST_IGNORED, "digest-ignored", "a replica whose digest differs goes on")                  \
    X(CONFIGURATION_LOST, "configuration-lost", "a snapshot is kept with an older configuration")

enum rep_plant {
#define X(NAME, word, words) REP_PLANT_##NAME,
    REP_PLANTS(X)
#undef X
        REP_PLANT_COUNT
};

/* The one that is wanted; PLANT_COUNT: there is no such bug. */
enum rep_plant rep_plant_wanted(void);

#define PLANT(NAME) (rep_plant_wanted() == REP_PLANT_##NAME)

#endif
