/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHARLM_MODEL_H
#define CHARLM_MODEL_H

/* A language model of characters: the symbols before a place, each as a learnt vector (the
 * embedding), go through one hidden layer into a distribution over the next symbol.
 *
 * The same inputs give the same bits: every sum has one fixed order, and nothing here knows how
 * many processes take part. */

#include <stddef.h>
#include <stdint.h>

enum {
    SYMBOLS = 96, /* '\n' and ' ' to '~' */
    CONTEXT = 12, /* symbols the model looks back */
    WIDTH = 16,   /* numbers in the vector of one symbol */
    HIDDEN = 320, /* units of the hidden layer */
    INPUTS = CONTEXT * WIDTH,
    SHARD = 32, /* examples in one shard of a batch */

    /* Where each part lies in the flat array of weights, and how long that is. */
    EMBED_AT = 0,
    HIDDEN_AT = EMBED_AT + SYMBOLS * WIDTH, /* [INPUTS][HIDDEN] */
    HIDDEN_BIAS_AT = HIDDEN_AT + INPUTS * HIDDEN,
    OUTPUT_AT = HIDDEN_BIAS_AT + HIDDEN, /* [HIDDEN][SYMBOLS] */
    OUTPUT_BIAS_AT = OUTPUT_AT + HIDDEN * SYMBOLS,
    WEIGHTS = OUTPUT_BIAS_AT + SYMBOLS
};

/* All that training carries from one step to the next: plain numbers, so that a rank can send it to
 * another as it is. */
struct model {
    int64_t step; /* updates made */
    float weight[WEIGHTS];
    float mean[WEIGHTS]; /* running means of the gradient and of its square (Adam) */
    float square[WEIGHTS];
};

/* One place to predict: `symbol[0 .. CONTEXT - 1]` are known, `symbol[CONTEXT]` is asked for. */
struct example {
    const uint8_t *symbol;
};

/* Buffers of one evaluation; big, so not on the stack. `prepare` copies what depends on the weights
 * alone and must come first whenever they changed. */
struct workspace {
    float input[SHARD][INPUTS], input_slope[SHARD][INPUTS];
    float hidden[SHARD][HIDDEN], hidden_slope[SHARD][HIDDEN];
    float chance[SHARD][SYMBOLS]; /* of each symbol; then the slope of the loss */
    float hidden_turned[HIDDEN][INPUTS], output_turned[SYMBOLS][HIDDEN];
};

void model_init(struct model *model, uint64_t seed);
void model_prepare(const struct model *model, struct workspace *work);

/* The sum over `count` <= SHARD examples of the loss in nats; its gradient replaces `gradient`,
 * unless that is NULL. */
double model_loss(const struct model *model, struct workspace *work, const struct example *examples,
                  int count, float gradient[WEIGHTS]);

/* `to` becomes `from` after one step along `gradient`, the sum over `count` examples. */
void model_step(const struct model *from, const float gradient[WEIGHTS], int count,
                int64_t steps_in_all, struct model *to);

/* A symbol drawn from the chances of the last example evaluated, by `dice` in [0, 1). Likely ones
 * are preferred: the chances count squared. */
int model_pick(const float chance[SYMBOLS], float dice);

/* What looks random and is the same everywhere: a number made of another (splitmix64). */
uint64_t model_scramble(uint64_t number);

/* A number that two pieces of memory share if their bits are equal (FNV-1a); that of the weights.
 */
uint64_t digest_of(const void *data, size_t size);
uint64_t model_digest(const struct model *model);

#endif
