/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLI_SYNONYMS_H
#define MST_CLI_SYNONYMS_H

/* Flags that users of torchrun, mpirun and srun type: accepted where `muster run` does that, or
 * answered with the flag that does it. */

#include <stdbool.h>
#include <stddef.h>

enum mst_meaning {
    MST_MEANS_SAME,
    MST_MEANS_SETS,
    MST_MEANS_UNNEEDED,
    MST_MEANS_ALONE,
    MST_MEANS_ANSWER,
    MST_MEANS_EXPORT,
    MST_MEANS_STREAMS
};

struct mst_synonym {
    const char *names;
    bool takes; /* a value */
    enum mst_meaning meaning;
    const char *text;
};

/* By the name without dashes in front, with _ for -; NULL: there is none. */
const struct mst_synonym *mst_synonym_find(const char *name);

/* Sets the variable of "NAME=VALUE" in the environment; of a NAME alone nothing: it is inherited.
 * False: it is neither. */
bool mst_synonym_export(const char *text);

/* Whether `text` says how much of the output is meant, as torchrun does: 0, 1, 2, 3, or several of
 * these by local rank. `all_out`: both streams of all ranks; `none_out`: none. */
bool mst_synonym_streams(const char *text, bool *all_out, bool *none_out);

#endif
