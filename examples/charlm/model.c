/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* ---- small parts ---- */

uint64_t model_scramble(uint64_t number)
{
    number += 0x9e3779b97f4a7c15u;
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
    number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
    return number ^ (number >> 31);
}

/* A number spread evenly from -bound to bound. */
static float scatter(uint64_t seed, uint64_t counter, float bound)
{
    uint64_t bits =
        model_scramble(seed ^ model_scramble(counter)) >> 40; /* 24 bits: exact in a float */
    return bound * ((float)bits / 8388608.0F - 1.0F);
}

/* c[row][col] += sum over k of a(row, k) * b[k][col], k ascending, so the rounding is always the
 * same; columns are independent, so the compiler may use vectors. The strides of `a` allow it to be
 * read turned. Four k at a time keep c in registers. */
struct matrix {
    const float *at;
    ptrdiff_t row, col;
};

static void multiply_add(int rows, int cols, int depth, struct matrix a, const float *restrict b,
                         float *restrict c)
{
    for (int row = 0; row < rows; row++, c += cols) {
        const float *restrict from = a.at + row * a.row;
        int k = 0;
        for (; k + 4 <= depth; k += 4) {
            const float a0 = from[k * a.col], a1 = from[(k + 1) * a.col];
            const float a2 = from[(k + 2) * a.col], a3 = from[(k + 3) * a.col];
            const float *restrict b0 = b + (ptrdiff_t)k * cols;
            for (int col = 0; col < cols; col++) {
                c[col] += a0 * b0[col] + a1 * b0[col + cols] + a2 * b0[col + 2 * cols] +
                          a3 * b0[col + 3 * cols];
            }
        }
        for (; k < depth; k++) {
            for (int col = 0; col < cols; col++) {
                c[col] += from[k * a.col] * b[(ptrdiff_t)k * cols + col];
            }
        }
    }
}

static void turn(int rows, int cols, const float *from, float *to)
{
    for (int row = 0; row < rows; row++) {
        for (int col = 0; col < cols; col++) {
            to[col * rows + row] = from[row * cols + col];
        }
    }
}

static void add_rows(int rows, int cols, const float *from, float *sum)
{
    for (int row = 0; row < rows; row++) {
        for (int col = 0; col < cols; col++) {
            sum[col] += from[row * cols + col];
        }
    }
}

/* ---- the model ---- */

void model_init(struct model *model, uint64_t seed)
{
    memset(model, 0, sizeof *model);
    for (int i = EMBED_AT; i < HIDDEN_AT; i++) {
        model->weight[i] = scatter(seed, (uint64_t)i, 1.0F);
    }
    for (int i = HIDDEN_AT; i < HIDDEN_BIAS_AT; i++) {
        model->weight[i] = scatter(seed, (uint64_t)i, 1.7F / sqrtf((float)INPUTS));
    }
    for (int i = OUTPUT_AT; i < OUTPUT_BIAS_AT; i++) {
        model->weight[i] = scatter(seed, (uint64_t)i, 0.5F / sqrtf((float)HIDDEN));
    }
}

void model_prepare(const struct model *model, struct workspace *work)
{
    turn(INPUTS, HIDDEN, model->weight + HIDDEN_AT, work->hidden_turned[0]);
    turn(HIDDEN, SYMBOLS, model->weight + OUTPUT_AT, work->output_turned[0]);
}

/* Turns scores into probabilities; returns -log of the probability of `symbol`. */
static double softmax(float score[SYMBOLS], int symbol)
{
    float top = score[0];
    for (int i = 1; i < SYMBOLS; i++) {
        top = score[i] > top ? score[i] : top;
    }
    float sum = 0.0F;
    float asked = score[symbol] - top;
    for (int i = 0; i < SYMBOLS; i++) {
        score[i] = expf(score[i] - top);
        sum += score[i];
    }
    for (int i = 0; i < SYMBOLS; i++) {
        score[i] /= sum;
    }
    return (double)(logf(sum) - asked);
}

static double forward(const struct model *model, struct workspace *work,
                      const struct example *examples, int count)
{
    const float *weight = model->weight;
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < CONTEXT; k++) {
            const float *vector = weight + EMBED_AT + (ptrdiff_t)examples[i].symbol[k] * WIDTH;
            memcpy(work->input[i] + (ptrdiff_t)k * WIDTH, vector, WIDTH * sizeof(float));
        }
        memcpy(work->hidden[i], weight + HIDDEN_BIAS_AT, sizeof work->hidden[i]);
        memcpy(work->chance[i], weight + OUTPUT_BIAS_AT, sizeof work->chance[i]);
    }
    multiply_add(count, HIDDEN, INPUTS, (struct matrix){work->input[0], INPUTS, 1},
                 weight + HIDDEN_AT, work->hidden[0]);
    for (int i = 0; i < count; i++) {
        for (int unit = 0; unit < HIDDEN; unit++) {
            work->hidden[i][unit] = tanhf(work->hidden[i][unit]);
        }
    }
    multiply_add(count, SYMBOLS, HIDDEN, (struct matrix){work->hidden[0], HIDDEN, 1},
                 weight + OUTPUT_AT, work->chance[0]);
    double loss = 0.0;
    for (int i = 0; i < count; i++) {
        loss += softmax(work->chance[i], examples[i].symbol[CONTEXT]);
    }
    return loss;
}

static void backward(struct workspace *work, const struct example *examples, int count,
                     float gradient[WEIGHTS])
{
    memset(gradient, 0, WEIGHTS * sizeof(float));
    for (int i = 0; i < count; i++) {
        work->chance[i][examples[i].symbol[CONTEXT]] -= 1.0F; /* now the slope of the scores */
    }
    memset(work->hidden_slope, 0, sizeof work->hidden_slope);
    memset(work->input_slope, 0, sizeof work->input_slope);

    multiply_add(HIDDEN, SYMBOLS, count, (struct matrix){work->hidden[0], 1, HIDDEN},
                 work->chance[0], gradient + OUTPUT_AT);
    add_rows(count, SYMBOLS, work->chance[0], gradient + OUTPUT_BIAS_AT);
    multiply_add(count, HIDDEN, SYMBOLS, (struct matrix){work->chance[0], SYMBOLS, 1},
                 work->output_turned[0], work->hidden_slope[0]);
    for (int i = 0; i < count; i++) {
        for (int unit = 0; unit < HIDDEN; unit++) {
            float value = work->hidden[i][unit];
            work->hidden_slope[i][unit] *= 1.0F - value * value;
        }
    }
    multiply_add(INPUTS, HIDDEN, count, (struct matrix){work->input[0], 1, INPUTS},
                 work->hidden_slope[0], gradient + HIDDEN_AT);
    add_rows(count, HIDDEN, work->hidden_slope[0], gradient + HIDDEN_BIAS_AT);
    multiply_add(count, INPUTS, HIDDEN, (struct matrix){work->hidden_slope[0], HIDDEN, 1},
                 work->hidden_turned[0], work->input_slope[0]);
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < CONTEXT; k++) {
            float *vector = gradient + EMBED_AT + (ptrdiff_t)examples[i].symbol[k] * WIDTH;
            add_rows(1, WIDTH, work->input_slope[i] + (ptrdiff_t)k * WIDTH, vector);
        }
    }
}

double model_loss(const struct model *model, struct workspace *work, const struct example *examples,
                  int count, float gradient[WEIGHTS])
{
    double loss = forward(model, work, examples, count);
    if (gradient != NULL) {
        backward(work, examples, count, gradient);
    }
    return loss;
}

/* The learning rate: up over the first steps, then along a cosine down to a little. */
static float rate(int64_t step, int64_t steps)
{
    const float top = 0.008F, pi = 3.14159265F;
    const float warm = 40.0F;
    float part = (float)step / (float)steps;
    float ramp = (float)(step + 1) / warm;
    return top * (ramp < 1.0F ? ramp : 1.0F) * (0.51F + 0.49F * cosf(pi * part));
}

void model_step(const struct model *from, const float gradient[WEIGHTS], int count,
                int64_t steps_in_all, struct model *to)
{
    const float keep_mean = 0.9F, keep_square = 0.99F;
    to->step = from->step + 1;
    float mean_share = 1.0F - powf(keep_mean, (float)to->step);
    float square_share = 1.0F - powf(keep_square, (float)to->step);
    float pace = rate(from->step, steps_in_all);
    float scale = 1.0F / (float)count;
    for (int i = 0; i < WEIGHTS; i++) {
        float slope = gradient[i] * scale;
        float mean = keep_mean * from->mean[i] + (1.0F - keep_mean) * slope;
        float square = keep_square * from->square[i] + (1.0F - keep_square) * slope * slope;
        to->mean[i] = mean;
        to->square[i] = square;
        to->weight[i] =
            from->weight[i] - pace * (mean / mean_share) / (sqrtf(square / square_share) + 1e-8F);
    }
}

int model_pick(const float chance[SYMBOLS], float dice)
{
    float sum = 0.0F;
    for (int i = 0; i < SYMBOLS; i++) {
        sum += chance[i] * chance[i];
    }
    float left = dice * sum;
    int symbol = 0;
    while (symbol < SYMBOLS - 1 && left >= chance[symbol] * chance[symbol]) {
        left -= chance[symbol] * chance[symbol];
        symbol++;
    }
    return symbol;
}

uint64_t digest_of(const void *data, size_t size)
{
    uint64_t digest = 0xcbf29ce484222325u;
    const unsigned char *byte = data;
    for (size_t i = 0; i < size; i++) {
        digest = (digest ^ byte[i]) * 0x100000001b3u;
    }
    return digest;
}

uint64_t model_digest(const struct model *model)
{
    return digest_of(model->weight, sizeof model->weight);
}
