/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLI_STRIKE_H
#define MST_CLI_STRIKE_H

/* The faults that chaos injects into one rank or worker of a job, or into its service, each with
 * one line of output. */

#include "base/time.h"
#include "cli/cli.h"
#include "cli/schedule.h"
#include "muster/member.h"
#include "net/address.h"

#define MST_STRIKE_ANSWER_MS 10000

/* The job that is struck. */
struct mst_target {
    const struct mst_cli *cli;
    struct mst_cli_place place;
    muster_client *client;
    int64_t for_ms; /* of a freeze or a cut; 0: no limit, or a moment */
    int signal;     /* of a kill */
    uint64_t began_ns;
    bool at_random; /* lines begin with the time, and a target that has ended is no error */
};

/* A rank, a worker, or the process of the service that leads: a copy, so that it outlives the list
 * that it was found in. */
struct mst_victim {
    bool service;                   /* it has no index, rank and incarnation */
    char address[MST_ADDRESS_TEXT]; /* of a replica that leads; empty: the service is single */
    bool worker;
    uint32_t index, rank;
    uint64_t incarnation, pid;
    uint64_t frozen_ns; /* since when it is frozen */
    int pidfd;          /* while it is frozen; -1: none */
    bool whole;         /* it has no pidfd because the kernel has none: its pid has to do */
};

bool mst_strike_lives(const struct muster_member *member);
bool mst_strike_reaches(struct mst_slice host); /* a process there: it is this host */
struct mst_victim mst_strike_victim(const struct muster_member *member);

/* A signal to its process; SIGSTOP, after which the victim keeps the process until it is thawed or
 * its descriptor is closed; or the service cuts its network. OK, or an exit code after one line. */
int mst_strike(const struct mst_target *target, enum mst_strike_kind kind,
               struct mst_victim *victim);
/* SIGCONT; one line, also where the process has ended meanwhile. */
void mst_strike_thaw(const struct mst_target *target, struct mst_victim *victim);

/* Signals that end a command are waited for instead, from now on; the descriptor, or -1. */
int mst_strike_catch_signals(void);
uint64_t mst_strike_now_ns(void);

/* `muster chaos random`: strikes until the job ends, a signal comes, or the count or the time is
 * reached. An exit code. */
int mst_cli_chaos_random(struct mst_target *target);

#endif
