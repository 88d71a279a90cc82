/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_HANG_SUSPECT_H
#define MST_LAUNCH_HANG_SUSPECT_H

/* Which of the ranks that a monitor watches holds up the others, as far as can be told from their
 * progress pages, and in words how they stand.
 *
 *   a rank that waits in muster   is never the suspect, as long as another one does not
 *   several that do not           the suspect never called muster in this attempt; or else has
 *                                 the fewest pings, or of equally many the fewest other calls
 *   equal ones                    the one that is stopped; the one that is in no declared section
 *   all wait but a silent one     that one: it has no clock, and never called muster in this
 *                                 attempt. Not if the others have all returned: how long it
 *                                 computes is not theirs to say
 *   all wait in muster            the one that is stopped; the one that waits for something else
 *                                 than all others; the one that stands lowest: the fewest pings,
 *                                 or calls if none has pinged (one that has may wait again and
 * again)
 *
 * Where none of that tells them apart there is no suspect. */

#include "launch/hang/monitor.h"

/* `stalled` made no progress on its own clock. The text goes after the suspect's name. NULL: there
 * is none, and the text goes after "the ranks". */
struct mst_watched *mst_suspect_of(const struct mst_monitor *monitor, struct mst_watched *stalled,
                                   uint64_t now_ns, char *text, size_t room);

/* How many ranks of the generation are watched here, if each of them waits in muster and has done
 * so for its soft timeout. One of them, `*silent_out`, may be silent for as long instead
 * (mst_hang_silent); NULL: none is. 0: there is another one. */
uint32_t mst_suspect_waiting(const struct mst_monitor *monitor, uint64_t generation,
                             struct mst_watched **silent_out);

/* All ranks of the generation wait in muster, and are watched here. */
struct mst_watched *mst_suspect_of_waiting(const struct mst_monitor *monitor, uint64_t generation,
                                           uint64_t now_ns, char *text, size_t room);

/* Whether one of the generation that is watched here waits in a call, and has not returned. */
bool mst_suspect_calls(const struct mst_monitor *monitor, uint64_t generation);

/* All others wait for this one. The text goes after its name. */
void mst_suspect_tell_silent(const struct mst_monitor *monitor, const struct mst_watched *silent,
                             uint64_t now_ns, char *text, size_t room);

/* What each of the ranks of the generation that are watched here waits for, as
 * src/launch/hang/waits.h has it; the one that does not wait is silent. `first_out`: rank 0 is
 * among them. All of them are counted, if there is room for three lines (700 bytes). */
void mst_suspect_tell_waits(const struct mst_monitor *monitor, uint64_t generation, bool *first_out,
                            char *text, size_t room);

/* Where its thread stands: "blocked in futex (sleeping)". */
void mst_suspect_place(const struct mst_watched *one, uint64_t now_ns, char *text, size_t room);

#endif
