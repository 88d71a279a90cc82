/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_HANG_DIAGNOSE_H
#define MST_LAUNCH_HANG_DIAGNOSE_H

/* Where a thread of another process stands, what one is dying of, and how old one is, from /proc.
 * For people, but for the age: nothing is decided by it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The processor time it has used, in steps of a clock tick. False: it cannot be looked at. */
bool mst_diagnose_cpu(pid_t pid, uint64_t thread, uint64_t *cpu_ns_out);

/* The time for which it ran, or waited for a processor where the kernel tells that. False: it
 * cannot be looked at. */
bool mst_diagnose_wanted(pid_t pid, uint64_t thread, uint64_t *wanted_ns_out);

/* "running", "stopped by a signal", "frozen", "blocked in futex (sleeping)". It is running too when
 * it used a tenth of the `wall_ns` (0: unknown) since it had used `cpu_ns`. */
void mst_diagnose_thread(pid_t pid, uint64_t thread, uint64_t cpu_ns, uint64_t wall_ns, char *text,
                         size_t room);

/* Whether a signal, a debugger or the freezer keeps it from running. */
bool mst_diagnose_stopped(pid_t pid, uint64_t thread);

/* Since it was started, also before it ran the program that it runs now; 0: not known. */
int64_t mst_diagnose_age_ms(pid_t pid);

/* What waitpid will say of a process that is on its way out: known before its memory is freed.
 * False: it is not, or ends with 0, or cannot be looked at. */
bool mst_diagnose_end(pid_t pid, int *status_out);

/* Where a dead process that does not go is blocked, in the kernel's words. */
void mst_diagnose_blocked(pid_t pid, char *text, size_t room);

#endif
