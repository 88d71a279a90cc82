/* SPDX-License-Identifier: Apache-2.0 */
/* Which row of the table wins, and what must not be taken for an answer. */
#include "discover/discover.h"

#include <string.h>

#include "base/text.h"
#include "discover/launchers.h"
#include "discover/nodelist.h"
#include "discover/number.h"

const char *mst_launcher_name(enum mst_launcher launcher)
{
    return launcher < MST_LAUNCHER_NONE ? mst_launcher_rows[launcher].name : "none";
}

const char *mst_launcher_word(enum mst_launcher launcher)
{
    return launcher < MST_LAUNCHER_NONE ? mst_launcher_rows[launcher].word : "none";
}

const char *mst_launcher_rank_variable(enum mst_launcher launcher)
{
    return launcher < MST_LAUNCHER_NONE ? mst_launcher_rows[launcher].rank : NULL;
}

/* ---- lines ---- */

static const char *by_hand(const struct mst_discover_input *input)
{
    return input->asker == MST_ASKER_AGENT ? "say --nnodes and --node-rank"
                                           : "set MUSTER_INDEX and MUSTER_SIZE";
}

#define VARIABLE "%s=%.*s"
#define VARIABLE_ARGS(input, name) (name), MST_TEXT_ARGS(mst_discover_get(input, name))

static void add_place(struct mst_text *text, const char *before, uint32_t number, uint32_t total)
{
    if (number != MST_PLACE_UNKNOWN) {
        mst_text_format(text, "%s%u", before, number);
        if (total != MST_PLACE_UNKNOWN) {
            mst_text_format(text, " of %u", total);
        }
    }
}

static bool trapped(struct mst_discovery *out, enum mst_launcher launcher, enum mst_trap trap)
{
    out->launcher = launcher;
    out->trap = trap;
    return false;
}

static bool trap_value(struct mst_discovery *out, const struct mst_discover_input *input,
                       enum mst_launcher launcher)
{
    mst_text_print(out->why, sizeof out->why, "%s: correct it, or %s", out->rows[launcher].why,
                   by_hand(input));
    return trapped(out, launcher, MST_TRAP_VALUE);
}

/* Whether only the size is missing, which this launcher never sets. */
static bool wants_size(const struct mst_discover_input *input, enum mst_launcher launcher)
{
    const struct mst_launcher_row *row = &mst_launcher_rows[launcher];

    return row->size && mst_discover_same(row->size, "MUSTER_SIZE") &&
           mst_discover_get(input, row->with);
}

static bool trap_half(struct mst_discovery *out, const struct mst_discover_input *input,
                      enum mst_launcher launcher)
{
    const struct mst_launcher_row *row = &mst_launcher_rows[launcher];
    const char *missing = input->asker == MST_ASKER_AGENT ? by_hand(input)
                          : launcher != MST_LAUNCHER_KUBERNETES
                              ? "set MUSTER_SIZE to their number"
                              : "set MUSTER_SIZE to their number, "
                                "which is the Job's "
                                "`completions`";

    if (wants_size(input, launcher)) {
        mst_text_print(out->why, sizeof out->why,
                       VARIABLE ", but %s does not tell how many ranks there are: %s",
                       VARIABLE_ARGS(input, row->rank), row->name, missing);
        return trapped(out, launcher, MST_TRAP_NO_SIZE);
    }
    mst_text_print(out->why, sizeof out->why, "%s: %s%s%s%s", out->rows[launcher].why,
                   row->start ? "start the program with " : "", row->start ? row->start : "",
                   row->start ? ", or " : "", by_hand(input));
    return trapped(out, launcher, MST_TRAP_HALF_SET);
}

static bool trap_contradiction(struct mst_discovery *out, const struct mst_discover_input *input,
                               enum mst_launcher first, enum mst_launcher second)
{
    struct mst_text text = mst_text_in(out->why, sizeof out->why);
    const enum mst_launcher both[] = {first, second};

    for (size_t i = 0; i < 2; i++) {
        const struct mst_discovered *place = &out->rows[both[i]].place;

        mst_text_format(&text, "%s%s", i == 0 ? "" : ", but ", mst_launcher_name(both[i]));
        add_place(&text, " says rank ", place->rank, place->size);
        mst_text_format(&text, " (" VARIABLE ")",
                        VARIABLE_ARGS(input, mst_launcher_rows[both[i]].rank));
    }
    mst_text_format(&text,
                    ": unset the variables of the one that did not start this program, or %s",
                    by_hand(input));
    return trapped(out, first, MST_TRAP_CONTRADICTION);
}

/* ---- Slurm outside srun ---- */

/* Tasks of the allocation, 0 if it does not tell. */
static uint32_t tasks_of_allocation(const struct mst_discover_input *input)
{
    const char *counts = mst_discover_get(input, "SLURM_TASKS_PER_NODE");
    const char *tasks = mst_discover_get(input, "SLURM_NTASKS");
    struct mst_task_counts read = {0};
    uint64_t number = 0;

    if (counts && !mst_task_counts_read(counts, 0, &read)) {
        read.tasks = 0;
    }
    if (tasks && !mst_number_parse(tasks, MST_PLACES_MAX, &number)) {
        number = 0;
    }
    return (uint32_t)number > read.tasks ? (uint32_t)number : read.tasks;
}

static uint32_t nodes_of_allocation(const struct mst_discover_input *input)
{
    const char *nodes = mst_discover_get(input, "SLURM_NNODES");
    uint64_t number = 0;

    if (!nodes || !mst_number_parse(nodes, MST_PLACES_MAX, &number)) {
        number = 0;
    }
    return (uint32_t)number;
}

/* `muster run` sets it for programs of JAX, which know no other launcher: to no number. */
static bool in_allocation(const struct mst_discover_input *input)
{
    const char *job = mst_discover_get(input, "SLURM_JOB_ID");

    return job && *job >= '0' && *job <= '9';
}

/* An allocation of one task holds one process, however it was started. */
static bool outside_srun(const struct mst_discovery *out, const struct mst_discover_input *input)
{
    uint32_t tasks = tasks_of_allocation(input);
    uint32_t nodes = nodes_of_allocation(input);

    if (out->rows[MST_LAUNCHER_SLURM].state == MST_ROW_COMPLETE || !in_allocation(input)) {
        return false;
    }
    if (input->asker == MST_ASKER_AGENT) {
        return nodes != 1;
    }
    return tasks != 1 || nodes > 1;
}

static bool trap_batch(struct mst_discovery *out, const struct mst_discover_input *input)
{
    struct mst_text text = mst_text_in(out->why, sizeof out->why);
    uint32_t tasks = tasks_of_allocation(input);
    uint32_t nodes = nodes_of_allocation(input);

    mst_text_format(&text,
                    VARIABLE ", but this process is no task of srun: it is in the batch script or "
                             "the shell of an allocation",
                    VARIABLE_ARGS(input, "SLURM_JOB_ID"));
    if (input->asker == MST_ASKER_AGENT) {
        add_place(&text, " of ", nodes > 0 ? nodes : MST_PLACE_UNKNOWN, MST_PLACE_UNKNOWN);
        mst_text_format(
            &text, "%s: start it with `srun --ntasks-per-node=1 muster run ...`, or say --nnodes 1",
            nodes > 0 ? " nodes" : "");
    } else {
        add_place(&text, " of ", tasks > 0 ? tasks : MST_PLACE_UNKNOWN, MST_PLACE_UNKNOWN);
        mst_text_format(&text, "%s: start it with srun, or %s (0 and 1 for a process on its own)",
                        tasks > 0 ? " tasks" : "", by_hand(input));
    }
    return trapped(out, MST_LAUNCHER_SLURM, MST_TRAP_BATCH);
}

/* ---- the winner ---- */

static bool same_place(const struct mst_discovered *a, const struct mst_discovered *b)
{
    return a->rank == b->rank && a->size == b->size;
}

/* Slurm's own support of PMIx names its jobs so; the step then has the size. */
static bool pmix_of_slurm(const struct mst_discover_input *input)
{
    const char *name = mst_discover_get(input, "PMIX_NAMESPACE");

    return name && mst_discover_begins(name, "slurm.pmix.");
}

/* Whether `winner` has what `half` lacks. Slurm's variables are inherited by everything that
 * runs in an allocation, so their rank alone proves nothing: mpirun's daemons have one too. */
static bool completes(const struct mst_discovery *out, const struct mst_discover_input *input,
                      enum mst_launcher half, enum mst_launcher winner)
{
    const char *rank = mst_discover_get(input, mst_launcher_rows[half].rank);
    uint64_t number;

    if (mst_launcher_rows[half].common) {
        return true;
    }
    if (!rank || !mst_number_parse(rank, MST_PLACES_MAX, &number) ||
        number != out->rows[winner].place.rank) {
        return false;
    }
    if (winner == MST_LAUNCHER_SLURM) {
        return half == MST_LAUNCHER_PALS || (half == MST_LAUNCHER_PMIX && pmix_of_slurm(input));
    }
    return true;
}

/* Whether a second complete row may say something else than the winner. */
static bool agree(const struct mst_discovery *out, const struct mst_discover_input *input,
                  enum mst_launcher winner, enum mst_launcher other)
{
    const struct mst_discovered *place = &out->rows[winner].place;
    const struct mst_row *slurm = &out->rows[MST_LAUNCHER_SLURM];
    const struct mst_row *row = &out->rows[other];

    /* These are inherited, or speak of hosts. */
    if (other == MST_LAUNCHER_SLURM || other == MST_LAUNCHER_TPU ||
        other == MST_LAUNCHER_KUBERNETES || same_place(place, &row->place)) {
        return true;
    }
    /* Started as a task of srun, which speaks PMI and PMIx too, and launching in its turn. */
    if ((slurm->state == MST_ROW_COMPLETE && same_place(&slurm->place, &row->place)) ||
        (other == MST_LAUNCHER_PMIX && pmix_of_slurm(input))) {
        return true;
    }
    /* `mpirun torchrun`: the second row is the place of the agent above this worker. */
    return winner == MST_LAUNCHER_TORCHRUN && place->node_count == row->place.size;
}

/* What a second row knows, if this process is its launcher's too and no child of that one's
 * daemon: PMI tells a rank and a size, and PALS, Flux or the step of Slurm that set it the rest. */
static void borrow(struct mst_discovered *place, const struct mst_row *from)
{
    if (from->state != MST_ROW_COMPLETE || !same_place(&from->place, place)) {
        return;
    }
    if (place->local_size == MST_PLACE_UNKNOWN) {
        place->local_rank = from->place.local_rank;
        place->local_size = from->place.local_size;
    }
    if (place->node_rank == MST_PLACE_UNKNOWN || place->node_count == MST_PLACE_UNKNOWN) {
        place->node_rank = from->place.node_rank;
        place->node_count = from->place.node_count;
    }
    if (place->job[0] == '\0') {
        memcpy(place->job, from->place.job, sizeof place->job);
    }
    if (place->host[0] == '\0') {
        memcpy(place->host, from->place.host, sizeof place->host);
    }
}

/* The user's name for the job goes before any other. */
static void take_job(struct mst_discovered *place, const struct mst_discover_input *input)
{
    const char *job = mst_discover_get(input, "MUSTER_JOB");

    if (job && strlen(job) < sizeof place->job) {
        memcpy(place->job, job, strlen(job) + 1);
    }
}

static bool won(struct mst_discovery *out, enum mst_launcher launcher)
{
    struct mst_discovered *place = &out->place;
    struct mst_text text = mst_text_in(out->why, sizeof out->why);

    out->launcher = launcher;
    *place = out->rows[launcher].place;
    for (int i = (int)launcher + 1; i < MST_LAUNCHER_NONE; i++) {
        if (!mst_launcher_rows[i].common) {
            borrow(place, &out->rows[i]);
        }
    }
    if (place->node_count == 1 && place->local_size == MST_PLACE_UNKNOWN) {
        place->local_rank = place->rank;
        place->local_size = place->size;
    }
    if (place->local_size != MST_PLACE_UNKNOWN && place->local_size == place->size) {
        place->node_rank = 0;
        place->node_count = 1;
    }
    mst_text_format(&text, "%s: %s", mst_launcher_name(launcher), out->rows[launcher].why);
    add_place(&text, ", local rank ", place->local_rank, place->local_size);
    add_place(&text, ", node ", place->node_rank, place->node_count);
    return true;
}

static bool alone(struct mst_discovery *out, const char *why)
{
    out->launcher = MST_LAUNCHER_NONE;
    out->place = (struct mst_discovered){.size = 1, .local_size = 1, .node_count = 1};
    mst_text_print(out->why, sizeof out->why, "%s", why);
    return true;
}

static bool nobody(struct mst_discovery *out, const struct mst_discover_input *input,
                   enum mst_launcher half)
{
    if (half != MST_LAUNCHER_NONE) {
        return trap_half(out, input, half);
    }
    if (outside_srun(out, input)) {
        return trap_batch(out, input);
    }
    return alone(out, in_allocation(input)
                          ? "an allocation of one, and no task of srun: a process on its own"
                          : "no variable of any launcher is set: a process on its own");
}

static bool choose(struct mst_discovery *out, const struct mst_discover_input *input)
{
    enum mst_launcher winner = MST_LAUNCHER_NONE;
    enum mst_launcher half = MST_LAUNCHER_NONE;

    for (int i = MST_LAUNCHER_MUSTER + 1; i < MST_LAUNCHER_NONE; i++) {
        enum mst_launcher launcher = (enum mst_launcher)i;
        enum mst_row_state state = out->rows[i].state;

        if (state == MST_ROW_COMPLETE && winner == MST_LAUNCHER_NONE) {
            winner = launcher;
        } else if (state == MST_ROW_COMPLETE && !agree(out, input, winner, launcher)) {
            return trap_contradiction(out, input, winner, launcher);
        } else if (state == MST_ROW_BROKEN && winner == MST_LAUNCHER_NONE) {
            return trap_value(out, input, launcher);
        } else if (state == MST_ROW_HALF && winner == MST_LAUNCHER_NONE &&
                   (half == MST_LAUNCHER_NONE || mst_launcher_rows[half].common)) {
            half = launcher;
        }
    }
    if (winner == MST_LAUNCHER_NONE) {
        return nobody(out, input, half);
    }
    if (half != MST_LAUNCHER_NONE && !completes(out, input, half, winner)) {
        return trap_half(out, input, half);
    }
    return won(out, winner);
}

/* An agent gets its node's number, not a rank. */
static bool choose_for_agent(struct mst_discovery *out, const struct mst_discover_input *input)
{
    if (mst_discover_get(input, "MUSTER_INDEX") || mst_discover_get(input, "TORCHELASTIC_RUN_ID")) {
        return alone(out, "started by a rank of another run: a run of its own");
    }
    out->rows[MST_LAUNCHER_TORCHRUN].state = MST_ROW_ABSENT;
    return choose(out, input);
}

static bool answer(struct mst_discovery *out, const struct mst_discover_input *input)
{
    const struct mst_row *own = &out->rows[MST_LAUNCHER_MUSTER];

    if (input->asker == MST_ASKER_AGENT) {
        return choose_for_agent(out, input);
    }
    if (own->state == MST_ROW_BROKEN) {
        return trap_value(out, input, MST_LAUNCHER_MUSTER);
    }
    if (own->state == MST_ROW_COMPLETE) {
        return won(out, MST_LAUNCHER_MUSTER);
    }
    return choose(out, input);
}

bool mst_discover(struct mst_discovery *out, const struct mst_discover_input *input)
{
    memset(out, 0, sizeof *out);
    for (int i = 0; i < MST_LAUNCHER_NONE; i++) {
        mst_launcher_read(&out->rows[i], (enum mst_launcher)i, input);
    }
    if (!answer(out, input)) {
        return false;
    }
    take_job(&out->place, input);
    return true;
}
