/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/synonyms.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static const struct mst_synonym synonyms[] = {
#define X(words, value, what, answer)                                                              \
    {.names = (words), .takes = (value) != 0, .meaning = MST_MEANS_##what, .text = (answer)},
#include "cli/synonyms.def"
#undef X
};

const struct mst_synonym *mst_synonym_find(const char *name)
{
    for (size_t i = 0; i < sizeof synonyms / sizeof synonyms[0]; i++) {
        if (mst_cli_listed(synonyms[i].names, name)) {
            return &synonyms[i];
        }
    }
    return NULL;
}

bool mst_synonym_export(const char *text)
{
    size_t size = strcspn(text, "=");
    char *name = strndup(text, size);
    bool ok = name != NULL && size > 0 && !isdigit((unsigned char)text[0]);

    for (size_t i = 0; i < size && ok; i++) {
        ok = isalnum((unsigned char)text[i]) || text[i] == '_';
    }
    if (ok && text[size] == '=') {
        ok = setenv(name, text + size + 1, 1) == 0;
    }
    free(name);
    return ok;
}

bool mst_synonym_streams(const char *text, bool *all_out, bool *none_out)
{
    bool by_rank = strchr(text, ':') != NULL;

    if (*text == '\0' || text[strspn(text, "0123456789:,")] != '\0' ||
        (!by_rank && strcmp(text, "0") != 0 && strcmp(text, "1") != 0 && strcmp(text, "2") != 0 &&
         strcmp(text, "3") != 0)) {
        return false;
    }
    *all_out = strcmp(text, "3") == 0;
    *none_out = strcmp(text, "0") == 0;
    return true;
}
