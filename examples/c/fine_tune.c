/* Trains a network in C: a whole step, forward, backward and optimizer, is one function.
 *
 *   fine_tune digits.bin steps [state.bin]
 */
#include <stdio.h>
#include <stdlib.h>

#include "step.h"

enum { BATCH = STEP_Y_COUNT, PIXELS = STEP_X_COUNT / STEP_Y_COUNT, MOST = 2000 };

static _Alignas(STEP_ALIGNMENT) unsigned char arena[STEP_ARENA_BYTES];
static _Alignas(STEP_ALIGNMENT) unsigned char state[STEP_STATE_BYTES];
static float rows[MOST][1 + PIXELS];

int main(int argc, char **argv) {
    FILE *file = argc > 2 ? fopen(argv[1], "rb") : NULL;
    if (!file) {
        fprintf(stderr, "usage: fine_tune digits.bin steps [state.bin]\n");
        return 2;
    }
    long count = (long)fread(rows, sizeof rows[0], MOST, file), steps = atol(argv[2]);
    fclose(file);
    step_state_init(state, sizeof state);
    /* Numbers of the optimizer are part of the state. */
    *(double *)(state + STEP_AT_LR) = 2e-3;

    float x[STEP_X_COUNT], loss;
    int64_t y[STEP_Y_COUNT];
    for (long k = 0, next = 0; k < steps; k++) {
        for (int b = 0; b < BATCH; b++, next = (next + 1) % count) {
            y[b] = (int64_t)rows[next][0];
            for (int p = 0; p < PIXELS; p++) x[b * PIXELS + p] = rows[next][1 + p];
        }
        int code = step_run(x, STEP_X_COUNT, y, STEP_Y_COUNT, &loss, 1, state, sizeof state, arena,
                            sizeof arena);
        if (code) {
            fprintf(stderr, "fine_tune: %s\n", step_error(code));
            return 1;
        }
        if (k == 0 || k == steps - 1) printf("step %ld: loss %.4f\n", k + 1, loss);
    }
    if (argc > 3) { /* the block of a safetensors file, without its header */
        FILE *out = fopen(argv[3], "wb");
        if (!out || fwrite(state, sizeof state, 1, out) != 1 || fclose(out)) return 1;
    }
    return 0;
}
