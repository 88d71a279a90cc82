/* SPDX-License-Identifier: Apache-2.0 */
/* The names of the properties, and what becomes of a run that breaks one. */
#include "properties.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define SAFETY SIM_SAFETY
#define LIVENESS SIM_LIVENESS
#define DETERMINISM SIM_DETERMINISM

static const struct {
    const char *name;
    enum sim_verdict verdict;
    const char *words;
} properties[SIM_PROPERTY_COUNT] = {
#define X(NAME, kind, words) [SIM_P_##NAME] = {#NAME, kind, words},
    SIM_PROPERTIES(X)
#undef X
};

const char *sim_property_name(enum sim_property property)
{
    return properties[property].name;
}

const char *sim_property_words(enum sim_property property)
{
    return properties[property].words;
}

enum sim_verdict sim_property_verdict(enum sim_property property)
{
    return properties[property].verdict;
}

_Noreturn void sim_fail(struct sim *sim, enum sim_property property, const char *format, ...)
{
    char line[200];
    va_list arguments;

    va_start(arguments, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it was started one line above */
    (void)vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    sim_tell(sim, "BROKEN %s: %s", sim_property_name(property), line);
    sim_story_print(sim->story, sim->verbose ? 0 : 40);
    fprintf(stderr, "seed %" PRIu64 " breaks %s: %s\n  %s\n", sim->seed,
            sim_property_name(property), sim_property_words(property), line);
    exit((int)sim_property_verdict(property));
}

void sim_saw_bad_bytes(struct sim *sim, muster_status status)
{
    if (status != MUSTER_ENOMEM) {
        sim_fail(sim, SIM_P_WELL_FORMED, "a codec says %d", (int)status);
    }
}

void sim_check_memory(struct sim *sim)
{
    if (sim->memory.live != 0 || sim->service.memory.live != 0) {
        sim_fail(sim, SIM_P_MEMORY, "%" PRIu64 " in the clients, %" PRIu64 " in the service",
                 sim->memory.live, sim->service.memory.live);
    }
}
