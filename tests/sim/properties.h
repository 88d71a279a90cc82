/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_PROPERTIES_H
#define SIM_PROPERTIES_H

/* What must be true. A simulator finds only what a property names, so each has a name, a kind and a
 * sentence here, and one check in properties*.c that fails under that name.
 *
 * SAFETY holds at every step, faults or not. LIVENESS holds once faults have stopped, after a
 * bounded time. DETERMINISM holds between two runs of a seed. */

#include <inttypes.h>
#include <stdbool.h>

#include "client/client.h"
#include "model.h"
#include "restart/restart.h"
#include "service/core/core.h"

struct sim;
struct sim_conn;
struct sim_proc;

/* X(NAME, kind, words), below the section of docs/behaviour/simulation.md in which it stands */
#define SIM_PROPERTIES(X)                                                                          \
    /* Rounds */                                                                                   \
    X(ROUND_EARLY, SAFETY,                                                                         \
      "a round ends well only when every participant that is not lost has contributed; it "        \
      "fails for a loss only when there was one, and at a deadline only if it had one")            \
    X(ROUND_SAME, SAFETY, "a round gives all its participants the same result")                    \
    X(ROUND_VALUE, SAFETY, "a result is the reduction of exactly what was contributed")            \
    X(ROUND_REFUSED, SAFETY, "ranks that do the same steps are never refused a round")             \
    X(DEADLINE_KEPT, SAFETY,                                                                       \
      "a round with a deadline is closed by then, not counting what the service slept; at "        \
      "a seal a missing rank is evicted")                                                          \
    /* Generations */                                                                              \
    X(VIEW_ONE, SAFETY, "a generation number is sealed once, and numbers only grow")               \
    X(VIEW_AGREES, SAFETY,                                                                         \
      "all ranks of a generation get the same size, and ranks are a permutation of "               \
      "0..size-1 in the order of the indices, or in the one that was given")                       \
    X(VIEW_EXACT, SAFETY,                                                                          \
      "a sealed view is the ranks that arrived and are not lost, plus the joiners that "           \
      "were ready in the order in which they became so, cut to max_size and to a multiple, "       \
      "or exactly the given order, if all of it stand there, and no other")                        \
    X(VIEW_MIN_SIZE, SAFETY, "no view is smaller than min_size")                                   \
    X(VIEW_FIRST, SAFETY,                                                                          \
      "from nobody a view is sealed only when size are ready, or after join_wait with "            \
      "min_size")                                                                                  \
    X(JOINER_IN, SAFETY, "a joiner that was ready when a seal closed is in the next view")         \
    X(LOST_STAYS_OUT, SAFETY, "a lost member is in no later view without a new incarnation")       \
    X(EVICTED_LATE, SAFETY, "no rank is evicted before the seal's deadline")                       \
    X(REPLACED_FIRST, SAFETY,                                                                      \
      "a seal that has time for it does not close without a lost rank that its agent "             \
      "replaces before that time is over")                                                         \
    X(REPLACE_ENDS, SAFETY,                                                                        \
      "a seal at which all others have arrived waits for replacements no longer than the "         \
      "time for it, counted from the last arrival or loss")                                        \
    X(RESTART_REASON, SAFETY,                                                                      \
      "nothing restarts without a fault, a loss, a request, a joiner that there is a seat "        \
      "for, an assignment to be worked out, or a rank that stopped itself, so the death of "       \
      "a spare restarts no rank")                                                                  \
    X(LOOPER_COST, SAFETY,                                                                         \
      "a process that dies at each start costs at most one interruption each time before "         \
      "it is in a generation, and one more if it dies as a member")                                \
    /* Members and leases */                                                                       \
    X(INCARNATION_GROWS, SAFETY, "an index is given again only with a larger incarnation")         \
    X(PLACE_ONE, SAFETY, "an index has one holder at a time")                                      \
    X(TOKEN_FENCED, SAFETY,                                                                        \
      "the process that was lost last in a place gets no second incarnation, unless the "          \
      "job had ended")                                                                             \
    X(CLAIM_DECIDED, SAFETY,                                                                       \
      "a claim of a held place is refused when the holder renews, and only then")                  \
    X(LOST_ONCE, SAFETY, "the loss of an incarnation is decided once")                             \
    X(LOSS_REASON, SAFETY, "an agent declares only dead processes dead")                           \
    X(LEASE_WHOLE, SAFETY,                                                                         \
      "no member is lost by lease before a whole lease has passed since it was heard")             \
    X(STALL_FORGIVEN, SAFETY,                                                                      \
      "no member is lost by lease before a whole lease has passed since the service came "         \
      "back")                                                                                      \
    X(LIVE_NOT_LOST, SAFETY,                                                                       \
      "a rank with nothing between it and the service is not lost by lease")                       \
    X(NODE_TOGETHER, SAFETY,                                                                       \
      "when a node is lost its agent and all its ranks are, in the same input")                    \
    X(NODE_ALONE, SAFETY, "a rank is not lost by lease before its agent that is silent too")       \
    X(CUT_HOLDS, SAFETY, "a rank that is cut off by a request gets no answer")                     \
    X(CUT_RIDDEN, SAFETY, "a cut that is over long before the lease costs no rank")                \
    X(STOPPED_FIRST, SAFETY,                                                                       \
      "a rank that is lost by lease has stopped itself before, unless it is dead or frozen")       \
    X(SELF_STOP, SAFETY,                                                                           \
      "a rank that has not stopped itself had a renewal answered that was sent less than "         \
      "0.8 of the lease ago")                                                                      \
    X(SENT_ON, SAFETY,                                                                             \
      "a client that is sent on connects to the named address next: at once, or after a wait "     \
      "if it has been there since its last one; after a lost connection it tries the next one")    \
    /* The function */                                                                             \
    X(FENCED_SILENT, SAFETY, "no rank is in fn of a generation it was never sealed into")          \
    X(OLD_GENERATION, SAFETY,                                                                      \
      "a rank in fn while a later generation is sealed without it is lost or left")                \
    X(ENTER_GROWS, SAFETY, "fn is entered with a larger generation each time")                     \
    X(ENTER_ONCE, SAFETY,                                                                          \
      "fn is entered by a rank that is not in it, when it and all others of the generation "       \
      "have unwound the attempt before")                                                           \
    X(ENTER_AGREES, SAFETY,                                                                        \
      "all ranks that enter a generation get the same iteration and the same record of why "       \
      "the one before ended, newcomers and spares too")                                            \
    X(STOP_TOGETHER, SAFETY,                                                                       \
      "when a rule ends the run of one rank it ends that of all of the generation, by the "        \
      "same rule, and no rank enters it")                                                          \
    X(STOP_RIGHT, SAFETY,                                                                          \
      "a run is given up only by a rule that was set, and that of one rank alone only for "        \
      "its own faults, its health or its finalizer")                                               \
    X(CAUSE_FIRST, SAFETY,                                                                         \
      "in a record a death stands before the failures that other ranks reported in the quarter "   \
      "of a second before it")                                                                     \
    X(EFFECT_FREE, SAFETY,                                                                         \
      "a rank is given up for its faults only if more than faults_max of them neither came when "  \
      "it was interrupted nor stand behind a death in their record")                               \
    X(BROKEN_WAITS, SAFETY,                                                                        \
      "a broken connection is reported after the wait, and not by a rank that was told to "        \
      "return")                                                                                    \
    X(BROKEN_BLAMES, SAFETY,                                                                       \
      "a broken connection is recorded of the peer that was named, and only before any other "     \
      "fault, but for a death that was reported a moment later")                                   \
    X(BROKEN_ENDS, LIVENESS,                                                                       \
      "after the faults a rank whose connection broke is soon told to return")                     \
    X(HANG_EARLY, SAFETY,                                                                          \
      "no rank is blamed before soft_timeout, or killed before hard_timeout, has passed "          \
      "since it last did something")                                                               \
    X(HANG_RIGHT, SAFETY,                                                                          \
      "no rank is killed for want of progress that neither stands still nor had trouble on "       \
      "the way to the service")                                                                    \
    X(HANG_ENDED, SAFETY,                                                                          \
      "a rank that does nothing for hard_timeout while an agent looks is killed soon after")       \
    X(ENTER_CALM, SAFETY, "fn is not entered by a rank that has stopped itself")                   \
    X(FINISH_TOGETHER, SAFETY,                                                                     \
      "a run ends well only when fn is done on all ranks of the generation that are not "          \
      "lost")                                                                                      \
    X(CHECK_HEEDS, SAFETY, "when the ranks were called out the next check says so")                \
    X(CHECK_CALLED, SAFETY,                                                                        \
      "after a loss, a fault, a ready joiner or a rank at the seal, the checks of a rank "         \
      "that nothing stands in the way of soon say so")                                             \
    /* Requests */                                                                                 \
    X(ANSWER_ONCE, SAFETY, "a request is answered at most once on its connection")                 \
    X(ANSWER_AT_ONCE, SAFETY, "a request that does not wait is answered in the turn it came in")   \
    X(CALL_ONCE, SAFETY, "each call of a client ends exactly once")                                \
    X(EXPECTED_STATUS, SAFETY, "no call ends with a status that its command cannot have")          \
    X(WELL_FORMED, SAFETY, "the codecs never find each other's bytes malformed")                   \
    X(MEMORY, SAFETY, "when all is over every allocation was released")                            \
    /* The death of the service */                                                                 \
    X(KEPT_STATE, SAFETY,                                                                          \
      "the service comes back in the state in which it died, or, over the death of its "           \
      "host, in one not older than what it had answered and synced")                               \
    X(KEPT_TWICE, SAFETY, "a journal recovered twice gives the same state")                        \
    X(KEPT_FIRST, SAFETY, "what is answered was written before, also when the disk is full")       \
    X(KEPT_TAKEN, SAFETY, "a journal that only death has cut is never refused")                    \
    X(KEPT_TIME, SAFETY,                                                                           \
      "the service's time stands still while it is dead, and goes on where its journal "           \
      "ends, not later")                                                                           \
    X(DAMAGE_REFUSED, SAFETY,                                                                      \
      "a damaged journal gives the state it kept, or all but a tail never promised, or an "        \
      "error with words")                                                                          \
    X(RECORD_SAME, SAFETY,                                                                         \
      "a record of what the service was fed, replayed, gives the same lines at the same "          \
      "times and the same digest, in every fourth seed")                                           \
    X(DEATH_UNNOTICED, SAFETY,                                                                     \
      "no rank stops itself for a death of the service that is shorter than its lease "            \
      "allows")                                                                                    \
    X(DEADLINE_EARLY, SAFETY,                                                                      \
      "no round times out before its deadline, not counting what the service was dead")            \
    X(FENCED_STAYS, SAFETY, "a lost session is never again answered as a member")                  \
    X(FULL_ENDS, LIVENESS, "when the disk has room again no request is refused for want of it")    \
    /* Preemption */                                                                               \
    X(STEP_SAME, SAFETY,                                                                           \
      "all ranks that learn what an agreement came to get the same step, also those left "         \
      "out of it")                                                                                 \
    X(STEP_GROWS, SAFETY, "where it is agreed again the step is not smaller")                      \
    X(STEP_NO, SAFETY,                                                                             \
      "no rank was to go on with the agreed step or a later one when it is saved by all")          \
    X(SAVED_SAME, SAFETY, "all ranks that learn that all have saved had saved the same step")      \
    X(SAVED_TOLD, SAFETY,                                                                          \
      "where all save the step that was agreed, however long that takes, no save is of "           \
      "different steps")                                                                           \
    X(SAVE_ENDS, LIVENESS,                                                                         \
      "after the faults no rank waits at the gate, or for the others' saves, longer than "         \
      "until the deadline")                                                                        \
    /* Clusters */                                                                                 \
    X(CLOSURE_ONCE, SAFETY,                                                                        \
      "an admitted closure ends once, as its own value, an error or cancelled, and no "            \
      "result is committed twice")                                                                 \
    X(CLOSURE_RIGHT, SAFETY, "a closure fails only for what its function did or what befell it")   \
    X(RUN_ONCE, SAFETY, "a function that must not run twice is never begun a second time")         \
    X(RUN_TERM, SAFETY,                                                                            \
      "a worker begins nothing but for the largest term it knows of, nor beside what still "       \
      "runs for another")                                                                          \
    X(JOIN_EXACT, SAFETY, "join ends when all that was admitted has ended, and not before")        \
    X(QUEUE_DRAINS, LIVENESS, "after the faults every closure ends, and join")                     \
    X(DISMISS_RECORDED, SAFETY,                                                                    \
      "a worker ends with OK only once the record of the dismissal is written")                    \
    X(DISMISS_LASTS, SAFETY, "no later coordinator admits a closure to a dismissed cluster")       \
    X(DISMISS_ENDS, LIVENESS,                                                                      \
      "after the faults all workers of a dismissed cluster end with OK, late ones too, and its "   \
      "coordinators")                                                                              \
    /* Keys and watches */                                                                         \
    X(ADD_ONCE, SAFETY, "an acknowledged add is in the sum once, any other at most once")          \
    X(APPEND_ONCE, SAFETY, "an acknowledged append is in the value once, any other at most once")  \
    X(CAS_ONE, SAFETY, "against one revision of a key at most one compare-and-set wins")           \
    X(INSERT_ONE, SAFETY, "of all inserts of a key at most one wins")                              \
    X(READ_NEWEST, SAFETY, "what was acknowledged before a read began is visible to it")           \
    X(READ_TRUE, SAFETY, "a revision of a key has one value, and it is one that was written")      \
    X(KEY_AGE, SAFETY,                                                                             \
      "the ages of one revision name one moment, and only grow, over the service's death "         \
      "too; over that of its host, or on a full disk, save what was not synced or written")        \
    X(BATCH_WHOLE, SAFETY, "keys written in one batch are never seen half")                        \
    X(OWN_KEY, SAFETY, "a key with one writer reads as that writer left it")                       \
    X(PREFIX_DELETED, SAFETY,                                                                      \
      "a deletion of a prefix with one writer counts and takes the keys that were written before " \
      "it, once, and none that is written after it")                                               \
    X(GENERATION_KEY, SAFETY, "a key of a generation's key space was written in that generation")  \
    X(WATCH_FORWARD, SAFETY, "a watch never shows an older state of a key after a newer one")      \
    X(REVISION_GROWS, SAFETY, "what the watches of a job show reaches further each time")          \
    /* Replicas */                                                                                 \
    X(TOLD_COMMITTED, SAFETY,                                                                      \
      "a service answers only what is committed: the entry of the turn is in the log of every "    \
      "later leader, with the same term")                                                          \
    X(TOLD_STAYS, SAFETY,                                                                          \
      "over all changes of the leader an answer agrees with every other one, and with the order "  \
      "in time: what was written or read is there for each call that begins later, once")          \
    X(ONE_LOG, SAFETY, "an index that is committed has the same term and bytes on every replica")  \
    X(SAME_STATE, SAFETY, "all replicas that have applied an index have the same state there")     \
    X(LEADER_ONE, SAFETY, "a term has one leader")                                                 \
    X(VOTE_ONCE, SAFETY,                                                                           \
      "an id votes once in a term, also over the death of its process and of its host")            \
    X(VOTE_KEPT, SAFETY, "a vote that leaves is on the disk")                                      \
    X(CORE_TIME, SAFETY, "the time of the core never goes back, whoever leads")                    \
    X(LEASE_KEPT, SAFETY,                                                                          \
      "a member that could reach a service that serves for 0.6 of a lease, and for a look at "     \
      "each host, is neither stopped nor given up")                                                \
    X(RESUME_WHOLE, SAFETY,                                                                        \
      "a new leader gives each member a whole lease before it does anything else")                 \
    X(STOPS_FIRST, SAFETY,                                                                         \
      "a member that runs has stopped before the service gives it up, on whatever host")           \
    X(DIGEST_STOPS, SAFETY,                                                                        \
      "a replica whose state differs does not go on behind the next digest in the log")            \
    X(VOTERS_KEPT, SAFETY,                                                                         \
      "of no more voters than are wanted one is removed only if its host has begun under another " \
      "id")                                                                                        \
    X(LEADS_AGAIN, LIVENESS, "ten election timeouts after the faults a service serves")            \
    X(VOTERS_WANTED, LIVENESS,                                                                     \
      "after the faults there are as many voters as are wanted, and all of them are alive")        \
    X(CATCHES_UP, LIVENESS, "after the faults each voter has applied what the leader has")         \
    /* After the faults */                                                                         \
    X(CONVERGES, LIVENESS, "after the faults every job ends in bounded time")                      \
    X(CALLS_END, LIVENESS, "after the faults every call that can end, ends")                       \
    X(DEAD_NOTICED, LIVENESS, "a dead member is lost after a lease and some slack")                \
    X(CUT_ENDS, LIVENESS, "after a cut that was asked for the rank is back, or lost")              \
    X(FENCED_TOLD, LIVENESS, "a lost process that lives learns of its loss")                       \
    X(JOINER_WAITS, LIVENESS,                                                                      \
      "with grow = check a ready joiner that there is a seat for is soon in a generation")         \
    X(WATCH_CONVERGES, LIVENESS, "a watch ends with the newest state of every key")                \
    X(OWNED_GONE, LIVENESS, "keys owned by a session that ended are gone")                         \
    X(SAME_TWICE, DETERMINISM, "a seed tells the same story each time")

enum sim_property {
#define X(NAME, kind, words) SIM_P_##NAME,
    SIM_PROPERTIES(X)
#undef X
        SIM_PROPERTY_COUNT
};

/* How a run can end; also the exit codes of the program. */
enum sim_verdict {
    SIM_GOOD = 0,
    SIM_USAGE = 2,
    SIM_SAFETY = 10,
    SIM_LIVENESS = 11,
    SIM_DETERMINISM = 12,
    SIM_CRASHED = 13, /* an assertion, a signal or a sanitizer */
    SIM_STUCK = 14    /* the simulator makes no progress in real time */
};

const char *sim_property_name(enum sim_property property);
const char *sim_property_words(enum sim_property property);
enum sim_verdict sim_property_verdict(enum sim_property property);

/* Ends the process with the property's exit code, after printing what is needed to repeat it. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
_Noreturn void
sim_fail(struct sim *sim, enum sim_property property, const char *format, ...);

/* ---- what is seen of the service --------------------------------------------------------------
 */
void sim_saw_request(struct sim *sim, struct sim_conn *conn, const struct mst_request *request);
void sim_saw_nothing(struct sim_conn *conn, uint64_t id); /* no memory even to refuse it */
void sim_saw_reply(struct sim *sim, struct sim_conn *conn, const struct mst_reply *reply);
void sim_saw_close(struct sim *sim, struct sim_conn *conn);
void sim_saw_trace(struct sim *sim, const struct mst_trace *line);
void sim_saw_turn(struct sim *sim);
void sim_saw_service_dead(struct sim *sim, uint64_t until_ns); /* or is dead for longer */
void sim_saw_service_back(struct sim *sim);
void sim_saw_bad_bytes(struct sim *sim, muster_status status);

/* ---- what is seen of agreements, properties_preempt.c
 * --------------------------------------------
 */
struct mst_preempt_outcome;
void sim_saw_agreement(struct sim *sim, struct sim_proc *proc);
void sim_saw_saved(struct sim *sim, struct sim_proc *proc,
                   const struct mst_preempt_outcome *outcome);
void sim_check_preempt(struct sim *sim, const struct sim_proc *proc);

/* ---- what is seen of the processes ------------------------------------------------------------
 */
void sim_saw_death(struct sim *sim, struct sim_proc *proc);
void sim_saw_done(struct sim *sim, struct sim_proc *proc, uint64_t tag, bool was_open,
                  enum mst_command command, const struct mst_reply *reply);
void sim_saw_sent(struct sim *sim, struct sim_proc *proc, const struct mst_request *request);
void sim_saw_answer(const struct sim *sim, struct sim_proc *proc, const struct mst_reply *reply);
void sim_saw_attention(struct sim *sim, struct sim_proc *proc);
void sim_saw_ended(struct sim *sim, struct sim_proc *proc, const struct mst_client_effect *effect);
void sim_saw_look(struct sim *sim, struct sim_proc *proc);
void sim_saw_joined(struct sim *sim, struct sim_proc *proc, const struct mst_view *view);
void sim_saw_enter(struct sim *sim, struct sim_proc *proc, const struct mst_restart_effect *effect);
void sim_saw_unwinds(struct sim *sim, struct sim_proc *proc);
void sim_saw_told(struct sim *sim, struct sim_proc *proc);
void sim_saw_check(struct sim *sim, struct sim_proc *proc);
void sim_saw_return(struct sim *sim, struct sim_proc *proc, muster_status status);
void sim_saw_report(struct sim *sim, struct sim_proc *proc); /* fn asks for a restart or fails */
void sim_saw_broken(struct sim *sim, struct sim_proc *proc);
void sim_saw_restart_request(struct sim *sim, struct sim_proc *proc,
                             const struct mst_request *request);
void sim_saw_finish(struct sim *sim, struct sim_proc *proc,
                    const struct mst_restart_effect *effect);
void sim_saw_result(struct sim *sim, struct sim_proc *proc, uint32_t name,
                    const struct mst_reply *reply);
void sim_saw_greeting(struct sim *sim, struct sim_proc *proc, const struct mst_reply *reply);
void sim_saw_watch(struct sim *sim, struct sim_proc *proc, uint64_t after,
                   const struct mst_reply *reply);

/* ---- keys: what was asked and what came of it --------------------------------------------------
 */
void sim_keys_added(struct sim *sim, struct model_job *job, uint32_t counter, uint32_t slot,
                    const struct mst_reply *reply);
void sim_keys_appended(struct model_job *job, uint32_t log, uint32_t slot,
                       const struct mst_reply *reply);
/* `before`: as it was known when the read began. */
void sim_keys_sum_read(struct sim *sim, struct model_job *job, uint32_t counter,
                       struct mst_slice value, const struct model_counter *before);
void sim_keys_log_read(struct sim *sim, struct model_job *job, uint32_t log, struct mst_slice value,
                       const struct model_log *before);
void sim_keys_put(struct sim *sim, struct model_register *reg, uint64_t value,
                  const struct mst_reply *reply);
void sim_keys_read(struct sim *sim, struct model_register *reg, uint64_t acked_before,
                   const struct mst_reply *reply);
void sim_keys_version(struct sim *sim, struct model_register *reg, uint64_t revision,
                      uint64_t value);
void sim_keys_swapped(struct sim *sim, struct model_cell *cell, uint64_t expected,
                      const struct mst_reply *reply);
void sim_keys_inserted(struct sim *sim, struct model_flag *flag, uint64_t value,
                       const struct mst_reply *reply);
void sim_keys_flag_read(struct sim *sim, struct model_flag *flag, uint64_t acked_before,
                        const struct mst_reply *reply);
void sim_keys_told(struct sim *sim, struct model_job *job, const struct mst_reply *reply);
void sim_keys_time_lost(struct sim *sim);
uint64_t sim_keys_number(struct mst_slice value); /* 8 bytes, least first */

/* ---- the second phase ---------------------------------------------------------------------------
 */
void sim_check_calm(struct sim *sim); /* from time to time */
void sim_check_memory(struct sim *sim);
bool sim_job_grows(const struct sim *sim, const struct model_job *job);
uint32_t sim_view_alive(const struct model_view *view); /* members not lost or left */

#endif
