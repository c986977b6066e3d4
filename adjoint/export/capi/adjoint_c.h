/* Tensors for C: create them, compute with them, run saved programs. No Python.
 *
 * Every function that can fail returns a code; adj_message() says what was wrong in the last call
 * of this thread that failed. Tensors never change once they are made, so threads may share them;
 * each is destroyed once. Results are new tensors, the caller's to destroy; where a call fails
 * there is none, and the place for it is NULL. */
#ifndef ADJOINT_C_H
#define ADJOINT_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { ADJ_FLOAT32, ADJ_FLOAT64, ADJ_INT64, ADJ_BOOL } adj_dtype;

typedef enum {
    ADJ_OK,
    ADJ_ARGUMENT,    /* NULL, a name that is not known, a dimension that is not there */
    ADJ_SHAPE,       /* sizes that do not fit each other */
    ADJ_DTYPE,       /* elements that an operation does not take */
    ADJ_MEMORY,      /* the system gives no more, or the caller gave too little */
    ADJ_FILE         /* a file that is not there, cut off, or no program */
} adj_code;

enum { ADJ_RANK = 8 }; /* dimensions, at most */

typedef struct adj_tensor adj_tensor;
typedef struct adj_program adj_program;

/* What was wrong in the last call of this thread that failed. */
const char *adj_message(void);

/* Zeros of a shape. */
adj_code adj_zeros(adj_dtype dtype, int rank, const int64_t *shape, adj_tensor **out);
/* A copy of elements in row-major order; `bytes` is how many there are. */
adj_code adj_from_memory(adj_dtype dtype, int rank, const int64_t *shape, const void *elements,
                         size_t bytes, adj_tensor **out);
/* Elements in row-major order into memory of exactly as many bytes. */
adj_code adj_to_memory(const adj_tensor *x, void *elements, size_t bytes);
/* Destroy a tensor; NULL is none. */
void adj_destroy(adj_tensor *x);

int adj_rank(const adj_tensor *x);
int64_t adj_size(const adj_tensor *x, int dim); /* -1 where there is no such dimension */
int64_t adj_count(const adj_tensor *x);         /* elements */
adj_dtype adj_dtype_of(const adj_tensor *x);
const void *adj_data(const adj_tensor *x); /* its elements in row-major order */

/* An operation on every element, by name: "exp", "log", "tanh", "relu", "neg", "sqrt", ... */
adj_code adj_unary(const char *name, const adj_tensor *x, adj_tensor **out);
/* The same of two tensors whose shapes broadcast: "add", "mul", "pow", "lt", "maximum", ... */
adj_code adj_binary(const char *name, const adj_tensor *x, const adj_tensor *y, adj_tensor **out);
/* x where `mask`, of truth values, holds; y elsewhere. */
adj_code adj_where(const adj_tensor *mask, const adj_tensor *x, const adj_tensor *y,
                   adj_tensor **out);
adj_code adj_cast(const adj_tensor *x, adj_dtype dtype, adj_tensor **out);

/* "sum", "mean", "prod", "amax", "amin" over some dimensions; over all where count is 0. */
adj_code adj_reduce(const char *name, const adj_tensor *x, const int64_t *dims, int count,
                    int keepdim, adj_tensor **out);
adj_code adj_argmax(const adj_tensor *x, int dim, int keepdim, adj_tensor **out);
adj_code adj_softmax(const adj_tensor *x, int dim, adj_tensor **out);

/* Products of matrices, batches broadcast. */
adj_code adj_matmul(const adj_tensor *x, const adj_tensor *y, adj_tensor **out);
/* x (N, C, ...) with weight (O, C / groups, ...): 1 to 3 dimensions of space, for each of which
 * there is a stride, a dilation, and padding before and after (two numbers). */
adj_code adj_convolution(const adj_tensor *x, const adj_tensor *weight, const int64_t *stride,
                         const int64_t *padding, const int64_t *dilation, int64_t groups,
                         adj_tensor **out);
/* The largest of each window over the last `space` dimensions, of which each has a size, a step,
 * padding and how many results there are (four numbers). */
adj_code adj_max_pool(const adj_tensor *x, int space, const int64_t *windows, adj_tensor **out);

adj_code adj_reshape(const adj_tensor *x, int rank, const int64_t *shape, adj_tensor **out);
adj_code adj_permute(const adj_tensor *x, const int64_t *dims, adj_tensor **out);
adj_code adj_expand(const adj_tensor *x, int rank, const int64_t *shape, adj_tensor **out);
/* For each dimension a start, a stop and a step. */
adj_code adj_slice(const adj_tensor *x, const int64_t *ranges, adj_tensor **out);
adj_code adj_concatenate(const adj_tensor *const *parts, int count, int dim, adj_tensor **out);
/* x[index] along the first dimension; index is of whole numbers. */
adj_code adj_rows(const adj_tensor *x, const adj_tensor *index, adj_tensor **out);

/* A program that adjoint.export.save_program wrote. */
adj_code adj_program_load(const char *path, adj_program **out);
adj_code adj_program_parse(const void *bytes, size_t count, adj_program **out);
void adj_program_destroy(adj_program *program);
int adj_program_inputs(const adj_program *program);
int adj_program_outputs(const adj_program *program);
/* Run it on as many inputs as it has; its outputs are new tensors. Threads may share a program. */
adj_code adj_program_run(const adj_program *program, const adj_tensor *const *inputs,
                         adj_tensor **outputs);

#ifdef __cplusplus
}
#endif
#endif
