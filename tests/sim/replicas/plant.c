/* SPDX-License-Identifier: Apache-2.0 */
#include "plant.h"

#include <stdlib.h>
#include <string.h>

static const char *const words[REP_PLANT_COUNT] = {
#define X(NAME, word, words) [REP_PLANT_##NAME] = (word),
    REP_PLANTS(X)
#undef X
};

enum rep_plant rep_plant_wanted(void)
{
    static int found = -1;
    const char *word = found < 0 ? getenv("MUSTER_SIM_PLANT") : NULL;

    if (found >= 0) {
        return (enum rep_plant)found;
    }
    found = word ? REP_PLANT_COUNT : REP_PLANT_NONE;
    for (int i = 0; word && i < REP_PLANT_COUNT; i++) {
        if (strcmp(words[i], word) == 0) {
            found = i;
        }
    }
    return (enum rep_plant)found;
}
