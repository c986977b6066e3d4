/* Tensors: memory, shapes, views as copies. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adjoint_c.h"

struct adj_tensor {
    adj_dtype dtype;
    int rank;
    int64_t shape[ADJ_RANK];
    int64_t count;
    unsigned char *data;
};

static _Thread_local char said[256] = "no error";

const char *adj_message(void) { return said; }

__attribute__((format(printf, 2, 3))) static adj_code fail(adj_code code, const char *format, ...) {
    va_list given;
    va_start(given, format);
    vsnprintf(said, sizeof said, format, given);
    va_end(given);
    return code;
}

#define TRY(call)                      \
    do {                               \
        adj_code code_ = (call);       \
        if (code_ != ADJ_OK) return code_; \
    } while (0)
#define GIVEN(x) \
    if (!(x)) return fail(ADJ_ARGUMENT, "%s: " #x " is NULL", __func__)
#define RESULT(out) \
    GIVEN(out);     \
    *(out) = NULL

static const int item_bytes[] = {4, 8, 8, 1};
static const char *const dtype_names[] = {"float32", "float64", "int64", "bool"};

static adj_code make(adj_dtype dtype, int rank, const int64_t *shape, adj_tensor **out) {
    *out = NULL;
    if ((int)dtype < 0 || (int)dtype > ADJ_BOOL) return fail(ADJ_DTYPE, "no dtype %d", (int)dtype);
    if (rank < 0 || rank > ADJ_RANK)
        return fail(ADJ_SHAPE, "%d dimensions; there are 0 to %d", rank, ADJ_RANK);
    if (rank && !shape) return fail(ADJ_ARGUMENT, "the shape is NULL");
    int64_t count = 1;
    for (int d = 0; d < rank; d++) {
        if (shape[d] < 0) return fail(ADJ_SHAPE, "a size below 0: %lld", (long long)shape[d]);
        if (shape[d] && count > (INT64_MAX >> 8) / shape[d])
            return fail(ADJ_MEMORY, "a tensor too large for any memory");
        count *= shape[d];
    }
    adj_tensor *made = malloc(sizeof *made);
    if (!made) return fail(ADJ_MEMORY, "no memory for a tensor");
    made->dtype = dtype;
    made->rank = rank;
    made->count = count;
    for (int d = 0; d < rank; d++) made->shape[d] = shape[d];
    made->data = calloc((size_t)count + 1, (size_t)item_bytes[dtype]);
    if (!made->data) {
        free(made);
        return fail(ADJ_MEMORY, "no memory for %lld elements", (long long)count);
    }
    *out = made;
    return ADJ_OK;
}

adj_code adj_zeros(adj_dtype dtype, int rank, const int64_t *shape, adj_tensor **out) {
    RESULT(out);
    return make(dtype, rank, shape, out);
}

adj_code adj_from_memory(adj_dtype dtype, int rank, const int64_t *shape, const void *elements,
                         size_t bytes, adj_tensor **out) {
    RESULT(out);
    GIVEN(elements);
    adj_tensor *made;
    TRY(make(dtype, rank, shape, &made));
    size_t wanted = (size_t)made->count * (size_t)item_bytes[dtype];
    if (bytes != wanted) {
        adj_destroy(made);
        return fail(ADJ_MEMORY, "adj_from_memory: expected %zu bytes, received %zu", wanted, bytes);
    }
    memcpy(made->data, elements, bytes);
    if (dtype == ADJ_BOOL)
        for (size_t k = 0; k < bytes; k++) made->data[k] = made->data[k] != 0;
    *out = made;
    return ADJ_OK;
}

adj_code adj_to_memory(const adj_tensor *x, void *elements, size_t bytes) {
    GIVEN(x);
    GIVEN(elements);
    size_t wanted = (size_t)x->count * (size_t)item_bytes[x->dtype];
    if (bytes != wanted)
        return fail(ADJ_MEMORY, "adj_to_memory: expected %zu bytes, received %zu", wanted, bytes);
    memcpy(elements, x->data, bytes);
    return ADJ_OK;
}

void adj_destroy(adj_tensor *x) {
    if (x) free(x->data);
    free(x);
}

int adj_rank(const adj_tensor *x) { return x ? x->rank : -1; }
int64_t adj_size(const adj_tensor *x, int dim) {
    return x && dim >= 0 && dim < x->rank ? x->shape[dim] : -1;
}
int64_t adj_count(const adj_tensor *x) { return x ? x->count : -1; }
adj_dtype adj_dtype_of(const adj_tensor *x) { return x ? x->dtype : ADJ_FLOAT32; }
const void *adj_data(const adj_tensor *x) { return x ? x->data : NULL; }

/* Copy elements from x, whose dimension d of the result is stepped through by step[d] elements. */
static void gather(const adj_tensor *x, adj_tensor *to, int64_t start, const int64_t *step) {
    size_t item = (size_t)item_bytes[x->dtype];
    int64_t at[ADJ_RANK] = {0}, from = start;
    int last = to->rank - 1;
    int64_t inner = to->rank ? to->shape[last] : 1, by = to->rank ? step[last] : 0;
    for (int64_t k = 0; k < to->count; k += inner) {
        unsigned char *row = to->data + (size_t)k * item;
        if (by == 1) {
            memcpy(row, x->data + (size_t)from * item, (size_t)inner * item);
        } else {
            for (int64_t i = 0; i < inner; i++)
                memcpy(row + (size_t)i * item, x->data + (size_t)(from + i * by) * item, item);
        }
        for (int d = last - 1; d >= 0; d--) {
            from += step[d];
            if (++at[d] < to->shape[d]) break;
            from -= step[d] * to->shape[d];
            at[d] = 0;
        }
    }
}

static void strides_of(const adj_tensor *x, int64_t *strides) {
    int64_t step = 1;
    for (int d = x->rank - 1; d >= 0; d--) {
        strides[d] = step;
        step *= x->shape[d];
    }
}

adj_code adj_reshape(const adj_tensor *x, int rank, const int64_t *shape, adj_tensor **out) {
    RESULT(out);
    GIVEN(x);
    adj_tensor *made;
    TRY(make(x->dtype, rank, shape, &made));
    if (made->count != x->count) {
        adj_code code = fail(ADJ_SHAPE, "adj_reshape: %lld elements into %lld",
                             (long long)x->count, (long long)made->count);
        adj_destroy(made);
        return code;
    }
    memcpy(made->data, x->data, (size_t)x->count * (size_t)item_bytes[x->dtype]);
    *out = made;
    return ADJ_OK;
}

adj_code adj_permute(const adj_tensor *x, const int64_t *dims, adj_tensor **out) {
    RESULT(out);
    GIVEN(x);
    if (x->rank) GIVEN(dims);
    int64_t shape[ADJ_RANK], own[ADJ_RANK], step[ADJ_RANK];
    unsigned seen = 0;
    strides_of(x, own);
    for (int d = 0; d < x->rank; d++) {
        if (dims[d] < 0 || dims[d] >= x->rank || (seen & (1u << dims[d])))
            return fail(ADJ_ARGUMENT, "adj_permute: dimension %lld of %d, once each",
                        (long long)dims[d], x->rank);
        seen |= 1u << dims[d];
        shape[d] = x->shape[dims[d]];
        step[d] = own[dims[d]];
    }
    TRY(make(x->dtype, x->rank, shape, out));
    gather(x, *out, 0, step);
    return ADJ_OK;
}

adj_code adj_expand(const adj_tensor *x, int rank, const int64_t *shape, adj_tensor **out) {
    RESULT(out);
    GIVEN(x);
    if (rank < x->rank || rank > ADJ_RANK)
        return fail(ADJ_SHAPE, "adj_expand: %d dimensions to %d", x->rank, rank);
    if (rank) GIVEN(shape);
    int64_t own[ADJ_RANK], step[ADJ_RANK];
    strides_of(x, own);
    for (int d = 0; d < rank; d++) {
        int at = d - rank + x->rank;
        int64_t n = at < 0 ? 1 : x->shape[at];
        if (n != 1 && n != shape[d])
            return fail(ADJ_SHAPE, "adj_expand: size %lld to %lld", (long long)n,
                        (long long)shape[d]);
        step[d] = n == 1 ? 0 : own[at];
    }
    TRY(make(x->dtype, rank, shape, out));
    if ((*out)->count) gather(x, *out, 0, step);
    return ADJ_OK;
}

adj_code adj_slice(const adj_tensor *x, const int64_t *ranges, adj_tensor **out) {
    RESULT(out);
    GIVEN(x);
    if (x->rank) GIVEN(ranges);
    int64_t shape[ADJ_RANK], own[ADJ_RANK], step[ADJ_RANK], start = 0;
    strides_of(x, own);
    for (int d = 0; d < x->rank; d++) {
        int64_t low = ranges[3 * d], high = ranges[3 * d + 1], by = ranges[3 * d + 2];
        if (by < 1 || low < 0 || high > x->shape[d] || low > high)
            return fail(ADJ_SHAPE, "adj_slice: %lld to %lld by %lld of a size %lld", (long long)low,
                        (long long)high, (long long)by, (long long)x->shape[d]);
        shape[d] = (high - low + by - 1) / by;
        start += low * own[d];
        step[d] = by * own[d];
    }
    TRY(make(x->dtype, x->rank, shape, out));
    if ((*out)->count) gather(x, *out, start, step);
    return ADJ_OK;
}

adj_code adj_concatenate(const adj_tensor *const *parts, int count, int dim, adj_tensor **out) {
    RESULT(out);
    GIVEN(parts);
    if (count < 1) return fail(ADJ_ARGUMENT, "adj_concatenate: no parts");
    for (int k = 0; k < count; k++) GIVEN(parts[k]);
    const adj_tensor *first = parts[0];
    if (dim < 0 || dim >= first->rank)
        return fail(ADJ_ARGUMENT, "adj_concatenate: dimension %d of %d", dim, first->rank);
    int64_t shape[ADJ_RANK], outer = 1, inner = 1;
    memcpy(shape, first->shape, sizeof shape);
    shape[dim] = 0;
    for (int k = 0; k < count; k++) {
        if (parts[k]->rank != first->rank || parts[k]->dtype != first->dtype)
            return fail(ADJ_SHAPE, "adj_concatenate: part %d is of another kind", k);
        for (int d = 0; d < first->rank; d++)
            if (d != dim && parts[k]->shape[d] != first->shape[d])
                return fail(ADJ_SHAPE, "adj_concatenate: size %lld of part %d, not %lld",
                            (long long)parts[k]->shape[d], k, (long long)first->shape[d]);
        shape[dim] += parts[k]->shape[dim];
    }
    TRY(make(first->dtype, first->rank, shape, out));
    for (int d = 0; d < first->rank; d++) {
        if (d < dim) outer *= shape[d];
        if (d > dim) inner *= shape[d];
    }
    size_t item = (size_t)item_bytes[first->dtype], at = 0;
    for (int64_t o = 0; o < outer; o++)
        for (int k = 0; k < count; k++) {
            size_t bytes = (size_t)(parts[k]->shape[dim] * inner) * item;
            memcpy((*out)->data + at, parts[k]->data + (size_t)o * bytes, bytes);
            at += bytes;
        }
    return ADJ_OK;
}

adj_code adj_rows(const adj_tensor *x, const adj_tensor *index, adj_tensor **out) {
    RESULT(out);
    GIVEN(x);
    GIVEN(index);
    if (index->dtype != ADJ_INT64) return fail(ADJ_DTYPE, "adj_rows: an index of whole numbers");
    if (x->rank < 1 || x->rank - 1 + index->rank > ADJ_RANK)
        return fail(ADJ_SHAPE, "adj_rows: %d and %d dimensions", x->rank, index->rank);
    int64_t shape[ADJ_RANK], inner = 1;
    for (int d = 0; d < index->rank; d++) shape[d] = index->shape[d];
    for (int d = 1; d < x->rank; d++) {
        shape[index->rank + d - 1] = x->shape[d];
        inner *= x->shape[d];
    }
    const int64_t *at = (const int64_t *)index->data;
    for (int64_t k = 0; k < index->count; k++)
        if (at[k] < -x->shape[0] || at[k] >= x->shape[0])
            return fail(ADJ_ARGUMENT, "adj_rows: index %lld of a size %lld", (long long)at[k],
                        (long long)x->shape[0]);
    TRY(make(x->dtype, x->rank - 1 + index->rank, shape, out));
    size_t bytes = (size_t)inner * (size_t)item_bytes[x->dtype];
    for (int64_t k = 0; k < index->count; k++) {
        int64_t row = at[k] < 0 ? at[k] + x->shape[0] : at[k];
        memcpy((*out)->data + (size_t)k * bytes, x->data + (size_t)row * bytes, bytes);
    }
    return ADJ_OK;
}
