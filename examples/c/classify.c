/* Classifies handwritten digits with a network that Adjoint compiled: no Python, no malloc.
 *
 *   classify digits.bin     images of 64 floats, each after its label as one more float
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "digits.h"

static _Alignas(DIGITS_ALIGNMENT) unsigned char arena[DIGITS_ARENA_BYTES];

int main(int argc, char **argv) {
    FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;
    if (!file) {
        fprintf(stderr, "usage: classify digits.bin [times]\n");
        return 2;
    }
    long times = argc > 2 ? atol(argv[2]) : 1, seen = 0, right = 0;
    float row[1 + DIGITS_IMAGE_COUNT], scores[DIGITS_SCORES_COUNT];
    double spent = 0;
    while (fread(row, sizeof row, 1, file) == 1) {
        for (long k = 0; k < times; k++) {
            struct timespec before, after;
            clock_gettime(CLOCK_MONOTONIC, &before);
            int code = digits_run(row + 1, DIGITS_IMAGE_COUNT, scores, DIGITS_SCORES_COUNT, arena,
                                  sizeof arena);
            clock_gettime(CLOCK_MONOTONIC, &after);
            if (code) {
                fprintf(stderr, "classify: %s\n", digits_error(code));
                return 1;
            }
            spent += (double)(after.tv_sec - before.tv_sec) * 1e6 +
                     (double)(after.tv_nsec - before.tv_nsec) / 1e3;
        }
        int best = 0;
        for (int k = 1; k < DIGITS_SCORES_COUNT; k++)
            if (scores[k] > scores[best]) best = k;
        right += best == (int)row[0];
        seen++;
    }
    fclose(file);
    printf("%ld of %ld right, %.1f microseconds an image\n", right, seen,
           spent / (double)(seen * times));
    return 0;
}
