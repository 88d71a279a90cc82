/* SPDX-License-Identifier: Apache-2.0 */
#include "quick_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct scene *scene_new(void)
{
    struct scene *scene = calloc(1, sizeof *scene);

    assert_non_null(scene);
    failing_mem_init(&scene->mem, 0);
    mst_native_arena_init(&scene->sent, &scene->mem.mem);
    mst_native_arena_init(&scene->slow, &scene->mem.mem);
    mst_native_arena_init(&scene->quick, &scene->mem.mem);
    return scene;
}

void scene_free(struct scene *scene)
{
    mst_native_arena_fini(&scene->sent);
    mst_native_arena_fini(&scene->slow);
    mst_native_arena_fini(&scene->quick);
    assert_int_equal(scene->mem.live, 0);
    free(scene);
}

unsigned char *scene_alone(const struct scene *scene)
{
    unsigned char *alone = malloc(scene->size > 0 ? scene->size : 1);

    assert_non_null(alone);
    memcpy(alone, scene->bytes, scene->size);
    return alone;
}

void scene_damage(struct scene *scene, struct mst_prng *prng, size_t within)
{
    size_t at = (size_t)mst_prng_below(prng, scene->size < within ? scene->size : within);
    size_t rest = scene->size - at;

    switch (mst_prng_below(prng, 4)) {
    case 0: /* another byte */
        scene->bytes[at] = (unsigned char)mst_prng_below(prng, 256);
        break;
    case 1: /* one bit */
        scene->bytes[at] ^= (unsigned char)(1u << mst_prng_below(prng, 8));
        break;
    case 2: /* one more */
        memmove(scene->bytes + at + 1, scene->bytes + at, rest);
        scene->bytes[at] = (unsigned char)(mst_prng_below(prng, 2) * 0x80);
        scene->size++;
        break;
    default: /* one less */
        memmove(scene->bytes + at, scene->bytes + at + 1, rest - 1);
        scene->size--;
        break;
    }
}
