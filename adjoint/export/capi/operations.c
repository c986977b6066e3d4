/* Operations: elementwise ones by LLVM's kernels, reductions, products, windows. */

static int both_shapes(const adj_tensor *x, const adj_tensor *y, int rank, int64_t *shape) {
    for (int d = 0; d < rank; d++) {
        int i = d - rank + x->rank, j = d - rank + y->rank;
        int64_t m = i < 0 ? 1 : x->shape[i], n = j < 0 ? 1 : y->shape[j];
        if (m != n && m != 1 && n != 1) return 0;
        shape[d] = m == 1 ? n : m;
    }
    return 1;
}

static int same_shape(const adj_tensor *x, int rank, const int64_t *shape) {
    if (x->rank != rank) return 0;
    for (int d = 0; d < rank; d++)
        if (x->shape[d] != shape[d]) return 0;
    return 1;
}

/* x itself, or a copy of another shape; `made` is what has to be destroyed. */
static adj_code spread(const adj_tensor *x, int rank, const int64_t *shape, const adj_tensor **to,
                       adj_tensor **made) {
    *made = NULL;
    *to = x;
    if (same_shape(x, rank, shape)) return ADJ_OK;
    TRY(adj_expand(x, rank, shape, made));
    *to = *made;
    return ADJ_OK;
}

adj_code adj_unary(const char *name, const adj_tensor *x, adj_tensor **out) {
    RESULT(out);
    GIVEN(name);
    GIVEN(x);
    for (const struct unary *each = unaries; each->name; each++)
        if (each->dtype == x->dtype && !strcmp(each->name, name)) {
            TRY(make(each->gives, x->rank, x->shape, out));
            each->run(x->data, (*out)->data, (uint64_t)x->count);
            return ADJ_OK;
        }
    return fail(ADJ_DTYPE, "adj_unary: there is no %s of %s", name, dtype_names[x->dtype]);
}

adj_code adj_binary(const char *name, const adj_tensor *x, const adj_tensor *y, adj_tensor **out) {
    RESULT(out);
    GIVEN(name);
    GIVEN(x);
    GIVEN(y);
    if (x->dtype != y->dtype)
        return fail(ADJ_DTYPE, "adj_binary: %s of %s and %s; cast one", name, dtype_names[x->dtype],
                    dtype_names[y->dtype]);
    int64_t shape[ADJ_RANK];
    int rank = x->rank > y->rank ? x->rank : y->rank;
    if (!both_shapes(x, y, rank, shape))
        return fail(ADJ_SHAPE, "adj_binary: shapes that do not broadcast, for %s", name);
    for (const struct binary *each = binaries; each->name; each++)
        if (each->dtype == x->dtype && !strcmp(each->name, name)) {
            const adj_tensor *a, *b;
            adj_tensor *own_a, *own_b = NULL;
            adj_code code = spread(x, rank, shape, &a, &own_a);
            if (code == ADJ_OK) code = spread(y, rank, shape, &b, &own_b);
            if (code == ADJ_OK) code = make(each->gives, rank, shape, out);
            if (code == ADJ_OK) each->run(a->data, b->data, (*out)->data, (uint64_t)(*out)->count);
            adj_destroy(own_a);
            adj_destroy(own_b);
            return code;
        }
    return fail(ADJ_DTYPE, "adj_binary: there is no %s of %s", name, dtype_names[x->dtype]);
}

adj_code adj_where(const adj_tensor *mask, const adj_tensor *x, const adj_tensor *y,
                   adj_tensor **out) {
    RESULT(out);
    GIVEN(mask);
    GIVEN(x);
    GIVEN(y);
    if (mask->dtype != ADJ_BOOL || x->dtype != y->dtype)
        return fail(ADJ_DTYPE, "adj_where: a mask of truth values, and two tensors of one dtype");
    int64_t shape[ADJ_RANK];
    int rank = mask->rank > x->rank ? mask->rank : x->rank;
    adj_tensor shell = {.dtype = x->dtype, .rank = 0};
    if (y->rank > rank) rank = y->rank;
    if (!both_shapes(mask, x, rank, shape)) return fail(ADJ_SHAPE, "adj_where: shapes");
    shell.rank = rank;
    memcpy(shell.shape, shape, sizeof shape);
    if (!both_shapes(&shell, y, rank, shape)) return fail(ADJ_SHAPE, "adj_where: shapes");
    const adj_tensor *m, *a, *b;
    adj_tensor *own[3] = {NULL, NULL, NULL};
    adj_code code = spread(mask, rank, shape, &m, &own[0]);
    if (code == ADJ_OK) code = spread(x, rank, shape, &a, &own[1]);
    if (code == ADJ_OK) code = spread(y, rank, shape, &b, &own[2]);
    if (code == ADJ_OK) code = make(x->dtype, rank, shape, out);
    if (code == ADJ_OK) {
        size_t item = (size_t)item_bytes[x->dtype];
        for (int64_t k = 0; k < (*out)->count; k++)
            memcpy((*out)->data + (size_t)k * item,
                   (m->data[k] ? a : b)->data + (size_t)k * item, item);
    }
    for (int k = 0; k < 3; k++) adj_destroy(own[k]);
    return code;
}

static double as_double(const adj_tensor *x, int64_t k) {
    switch (x->dtype) {
        case ADJ_FLOAT32: return (double)((const float *)x->data)[k];
        case ADJ_FLOAT64: return ((const double *)x->data)[k];
        case ADJ_INT64: return (double)((const int64_t *)x->data)[k];
        default: return (double)x->data[k];
    }
}

/* Whole numbers from floats: toward 0; the nearest there is where they are too large, 0 for NaN. */
static int64_t whole(double x) {
    if (x != x) return 0;
    if (x >= 9223372036854775808.0) return INT64_MAX;
    if (x < -9223372036854775808.0) return INT64_MIN;
    return (int64_t)x;
}

adj_code adj_cast(const adj_tensor *x, adj_dtype dtype, adj_tensor **out) {
    RESULT(out);
    GIVEN(x);
    TRY(make(dtype, x->rank, x->shape, out));
    for (int64_t k = 0; k < x->count; k++) {
        int is_whole = x->dtype == ADJ_INT64;
        int64_t n = is_whole ? ((const int64_t *)x->data)[k] : 0;
        double v = is_whole ? 0 : as_double(x, k);
        switch (dtype) {
            case ADJ_FLOAT32: ((float *)(*out)->data)[k] = is_whole ? (float)n : (float)v; break;
            case ADJ_FLOAT64: ((double *)(*out)->data)[k] = is_whole ? (double)n : v; break;
            case ADJ_INT64: ((int64_t *)(*out)->data)[k] = is_whole ? n : whole(v); break;
            default: (*out)->data[k] = is_whole ? n != 0 : v != 0; break;
        }
    }
    return ADJ_OK;
}

/* Sums of floats go pairwise over blocks, so that long ones keep their digits. */
#define REDUCTION(T, STEM)                                                                        \
    static T sum_##STEM(const T *x, int64_t n, int64_t step) {                                    \
        if (n > 64) {                                                                             \
            int64_t half = n / 2;                                                                 \
            return sum_##STEM(x, half, step) + sum_##STEM(x + half * step, n - half, step);       \
        }                                                                                         \
        T r = 0;                                                                                  \
        for (int64_t k = 0; k < n; k++) r += x[k * step];                                         \
        return r;                                                                                 \
    }                                                                                             \
    static void reduce_##STEM(int kind, const T *x, T *to, int64_t outer, int64_t n,              \
                              int64_t inner) {                                                    \
        for (int64_t o = 0; o < outer; o++)                                                       \
            for (int64_t i = 0; i < inner; i++) {                                                 \
                const T *from = x + o * n * inner + i;                                            \
                T r = kind == 0 ? sum_##STEM(from, n, inner) : kind == 1 ? (T)1 : from[0];        \
                for (int64_t k = 0; kind && k < n; k++) {                                         \
                    T v = from[k * inner];                                                        \
                    if (kind == 1) r *= v;                                                        \
                    else if (v != v || (r == r && (kind == 2 ? v > r : v < r))) r = v;            \
                }                                                                                 \
                to[o * inner + i] = r;                                                            \
            }                                                                                     \
    }
REDUCTION(float, f32)
REDUCTION(double, f64)
REDUCTION(uint64_t, u64)
static void reduce_i64(int kind, const int64_t *x, int64_t *to, int64_t outer, int64_t n,
                       int64_t inner) {
    if (kind < 2) {
        reduce_u64(kind, (const uint64_t *)x, (uint64_t *)to, outer, n, inner);
        return;
    }
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            int64_t r = x[o * n * inner + i];
            for (int64_t k = 1; k < n; k++) {
                int64_t v = x[(o * n + k) * inner + i];
                if (kind == 2 ? v > r : v < r) r = v;
            }
            to[o * inner + i] = r;
        }
}

/* One dimension, kept as size 1. */
static adj_code reduce_one(int kind, const adj_tensor *x, int dim, adj_tensor **out) {
    int64_t shape[ADJ_RANK], outer = 1, inner = 1, n = x->shape[dim];
    memcpy(shape, x->shape, sizeof shape);
    shape[dim] = 1;
    for (int d = 0; d < x->rank; d++) {
        if (d < dim) outer *= x->shape[d];
        if (d > dim) inner *= x->shape[d];
    }
    if (kind > 1 && !n) return fail(ADJ_SHAPE, "adj_reduce: no elements to choose from");
    TRY(make(x->dtype, x->rank, shape, out));
    if (x->dtype == ADJ_FLOAT32)
        reduce_f32(kind, (const float *)x->data, (float *)(*out)->data, outer, n, inner);
    else if (x->dtype == ADJ_FLOAT64)
        reduce_f64(kind, (const double *)x->data, (double *)(*out)->data, outer, n, inner);
    else
        reduce_i64(kind, (const int64_t *)x->data, (int64_t *)(*out)->data, outer, n, inner);
    return ADJ_OK;
}

adj_code adj_reduce(const char *name, const adj_tensor *x, const int64_t *dims, int count,
                    int keepdim, adj_tensor **out) {
    static const char *const names[] = {"sum", "prod", "amax", "amin", "mean"};
    RESULT(out);
    GIVEN(name);
    GIVEN(x);
    if (count) GIVEN(dims);
    int kind = -1, is_mean = 0, chosen[ADJ_RANK] = {0};
    for (int k = 0; k < 5; k++)
        if (!strcmp(names[k], name)) kind = k;
    if (kind < 0) return fail(ADJ_ARGUMENT, "adj_reduce: there is no %s", name);
    if (kind == 4) is_mean = 1, kind = 0;
    if (x->dtype == ADJ_BOOL || (is_mean && x->dtype == ADJ_INT64))
        return fail(ADJ_DTYPE, "adj_reduce: no %s of %s; cast it", name, dtype_names[x->dtype]);
    for (int k = 0; k < count; k++) {
        int64_t d = dims[k] < 0 ? dims[k] + x->rank : dims[k];
        if (d < 0 || d >= x->rank || chosen[d])
            return fail(ADJ_ARGUMENT, "adj_reduce: dimension %lld of %d, once each",
                        (long long)dims[k], x->rank);
        chosen[d] = 1;
    }
    int64_t members = 1, shape[ADJ_RANK] = {0};
    int rank = 0;
    adj_tensor *made = NULL;
    adj_code code = ADJ_OK;
    for (int d = 0; d < x->rank && code == ADJ_OK; d++) {
        if (count && !chosen[d]) {
            shape[rank++] = x->shape[d];
            continue;
        }
        adj_tensor *next = NULL;
        code = reduce_one(kind, made ? made : x, d, &next);
        adj_destroy(made);
        made = next;
        members *= x->shape[d];
        if (keepdim) shape[rank++] = 1;
    }
    if (code == ADJ_OK) code = adj_reshape(made ? made : x, rank, shape, out);
    adj_destroy(made);
    if (code == ADJ_OK && is_mean) {
        for (int64_t k = 0; k < (*out)->count; k++) {
            if (x->dtype == ADJ_FLOAT32) ((float *)(*out)->data)[k] /= (float)members;
            else ((double *)(*out)->data)[k] /= (double)members;
        }
    }
    return code;
}

adj_code adj_argmax(const adj_tensor *x, int dim, int keepdim, adj_tensor **out) {
    RESULT(out);
    GIVEN(x);
    if (dim < 0) dim += x->rank;
    if (dim < 0 || dim >= x->rank || !x->shape[dim])
        return fail(ADJ_ARGUMENT, "adj_argmax: dimension %d of %d", dim, x->rank);
    int64_t shape[ADJ_RANK] = {0}, outer = 1, inner = 1, n = x->shape[dim];
    int rank = 0;
    for (int d = 0; d < x->rank; d++) {
        if (d < dim) outer *= x->shape[d];
        if (d > dim) inner *= x->shape[d];
        if (d != dim) shape[rank++] = x->shape[d];
        else if (keepdim) shape[rank++] = 1;
    }
    TRY(make(ADJ_INT64, rank, shape, out));
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            int64_t best = 0;
            for (int64_t k = 1; k < n; k++) {
                double v = as_double(x, (o * n + k) * inner + i);
                double top = as_double(x, (o * n + best) * inner + i);
                if (top == top && (v != v || v > top)) best = k;
            }
            ((int64_t *)(*out)->data)[o * inner + i] = best;
        }
    return ADJ_OK;
}

adj_code adj_softmax(const adj_tensor *x, int dim, adj_tensor **out) {
    RESULT(out);
    GIVEN(x);
    if (dim < 0) dim += x->rank;
    if (x->dtype > ADJ_FLOAT64) return fail(ADJ_DTYPE, "adj_softmax: floats");
    if (dim < 0 || dim >= x->rank)
        return fail(ADJ_ARGUMENT, "adj_softmax: dimension %d of %d", dim, x->rank);
    int64_t dims[1] = {dim};
    adj_tensor *top = NULL, *less = NULL, *up = NULL, *sum = NULL;
    adj_code code = adj_reduce("amax", x, dims, 1, 1, &top);
    if (code == ADJ_OK) code = adj_binary("sub", x, top, &less);
    if (code == ADJ_OK) code = adj_unary("exp", less, &up);
    if (code == ADJ_OK) code = adj_reduce("sum", up, dims, 1, 1, &sum);
    if (code == ADJ_OK) code = adj_binary("div", up, sum, out);
    adj_destroy(top);
    adj_destroy(less);
    adj_destroy(up);
    adj_destroy(sum);
    return code;
}

/* c (m, n) = a (m, k) b (k, n), rows one after the other: the words of LLVM's kernel in one piece. */
static void product(adj_dtype dtype, const void *a, const void *b, void *c, int64_t m, int64_t n,
                    int64_t k) {
    const struct tile *tile = &tiles[dtype];
    int64_t blocks = (k + tile->depth - 1) / tile->depth;
    int64_t block = (k + (blocks ? blocks : 1) - 1) / (blocks ? blocks : 1);
    int64_t columns = (n + tile->columns - 1) / tile->columns * tile->columns;
    int64_t strip = tile->room / (block ? block : 1);
    strip = (strip < 1 ? 1 : strip) * tile->columns;
    int64_t part = (m + tile->rows - 1) / tile->rows * tile->rows;
    int64_t words[] = {
        (int64_t)(intptr_t)a, (int64_t)(intptr_t)b, (int64_t)(intptr_t)c, m, n, k, k, 1, n, 1, 0,
        n, 0, 0, 0, part, 1, columns, 1, strip, block, 1, 1, 0, 0, 0, 0, 0, 0,
    };
    tile->run(words, 0, 1);
}

adj_code adj_matmul(const adj_tensor *x, const adj_tensor *y, adj_tensor **out) {
    RESULT(out);
    GIVEN(x);
    GIVEN(y);
    if (x->dtype != y->dtype || x->dtype > ADJ_FLOAT64)
        return fail(ADJ_DTYPE, "adj_matmul: floats of one dtype");
    if (x->rank < 2 || y->rank < 2) return fail(ADJ_SHAPE, "adj_matmul: matrices");
    int64_t m = x->shape[x->rank - 2], k = x->shape[x->rank - 1], n = y->shape[y->rank - 1];
    if (y->shape[y->rank - 2] != k)
        return fail(ADJ_SHAPE, "adj_matmul: cannot contract %lld with %lld", (long long)k,
                    (long long)y->shape[y->rank - 2]);
    adj_tensor left = *x, right = *y;
    left.rank -= 2;
    right.rank -= 2;
    int64_t shape[ADJ_RANK], batch = 1;
    int rank = left.rank > right.rank ? left.rank : right.rank;
    if (!both_shapes(&left, &right, rank, shape))
        return fail(ADJ_SHAPE, "adj_matmul: batches that do not broadcast");
    for (int d = 0; d < rank; d++) batch *= shape[d];
    int64_t wide_x[ADJ_RANK], wide_y[ADJ_RANK];
    memcpy(wide_x, shape, sizeof shape);
    memcpy(wide_y, shape, sizeof shape);
    wide_x[rank] = m, wide_x[rank + 1] = k, wide_y[rank] = k, wide_y[rank + 1] = n;
    shape[rank] = m, shape[rank + 1] = n;
    const adj_tensor *a, *b;
    adj_tensor *own_a, *own_b = NULL;
    adj_code code = spread(x, rank + 2, wide_x, &a, &own_a);
    if (code == ADJ_OK) code = spread(y, rank + 2, wide_y, &b, &own_b);
    if (code == ADJ_OK) code = make(x->dtype, rank + 2, shape, out);
    size_t item = (size_t)item_bytes[x->dtype];
    for (int64_t i = 0; code == ADJ_OK && k && m && n && i < batch; i++)
        product(x->dtype, a->data + (size_t)(i * m * k) * item, b->data + (size_t)(i * k * n) * item,
                (*out)->data + (size_t)(i * m * n) * item, m, n, k);
    adj_destroy(own_a);
    adj_destroy(own_b);
    return code;
}

/* Where a window's element lies along one dimension, or -1. */
static int64_t place(int64_t at, int64_t size) { return at < 0 || at >= size ? -1 : at; }

adj_code adj_convolution(const adj_tensor *x, const adj_tensor *weight, const int64_t *stride,
                         const int64_t *padding, const int64_t *dilation, int64_t groups,
                         adj_tensor **out) {
    RESULT(out);
    GIVEN(x);
    GIVEN(weight);
    GIVEN(stride);
    GIVEN(padding);
    GIVEN(dilation);
    int space = x->rank - 2;
    if (x->dtype != weight->dtype || x->dtype > ADJ_FLOAT64)
        return fail(ADJ_DTYPE, "adj_convolution: floats of one dtype");
    if (space < 1 || space > 3 || weight->rank != x->rank)
        return fail(ADJ_SHAPE, "adj_convolution: 1 to 3 dimensions of space, in both alike");
    int64_t channels = x->shape[1], rows = weight->shape[0], own = weight->shape[1];
    if (groups < 1 || channels != own * groups || rows % groups)
        return fail(ADJ_SHAPE, "adj_convolution: %lld channels, a weight of (%lld, %lld, ...), %lld "
                    "groups", (long long)channels, (long long)rows, (long long)own,
                    (long long)groups);
    int64_t in[3] = {1, 1, 1}, kernel[3] = {1, 1, 1}, step[3] = {1, 1, 1}, low[3] = {0, 0, 0};
    int64_t wide[3] = {1, 1, 1}, to[3] = {1, 1, 1}, shape[ADJ_RANK] = {x->shape[0], rows};
    for (int d = 0; d < space; d++) {
        int e = d + 3 - space;
        in[e] = x->shape[2 + d], kernel[e] = weight->shape[2 + d], step[e] = stride[d];
        low[e] = padding[2 * d], wide[e] = dilation[d];
        int64_t all = in[e] + padding[2 * d] + padding[2 * d + 1];
        if (step[e] < 1 || wide[e] < 1 || all < wide[e] * (kernel[e] - 1) + 1)
            return fail(ADJ_SHAPE, "adj_convolution: a window of %lld does not fit into %lld",
                        (long long)(wide[e] * (kernel[e] - 1) + 1), (long long)all);
        to[e] = shape[2 + d] = (all - wide[e] * (kernel[e] - 1) - 1) / step[e] + 1;
    }
    int64_t taps = kernel[0] * kernel[1] * kernel[2], spots = to[0] * to[1] * to[2];
    int64_t depth = own * taps, columns[2] = {depth, spots};
    adj_tensor *unfolded;
    TRY(make(x->dtype, 2, columns, &unfolded));
    adj_code code = make(x->dtype, x->rank, shape, out);
    size_t item = (size_t)item_bytes[x->dtype];
    for (int64_t b = 0; code == ADJ_OK && b < x->shape[0]; b++)
        for (int64_t g = 0; g < groups; g++) {
            unsigned char *cell = unfolded->data;
            for (int64_t c = 0; c < own; c++) {
                const unsigned char *plane =
                    x->data + (size_t)((b * channels + g * own + c) * in[0] * in[1] * in[2]) * item;
                for (int64_t t = 0; t < taps; t++)
                    for (int64_t p = 0; p < to[0]; p++)
                        for (int64_t q = 0; q < to[1]; q++)
                            for (int64_t r = 0; r < to[2]; r++, cell += item) {
                                int64_t i = place(p * step[0] - low[0] +
                                    t / kernel[2] / kernel[1] * wide[0], in[0]);
                                int64_t j = place(q * step[1] - low[1] +
                                    t / kernel[2] % kernel[1] * wide[1], in[1]);
                                int64_t k = place(r * step[2] - low[2] +
                                    t % kernel[2] * wide[2], in[2]);
                                if (i < 0 || j < 0 || k < 0) memset(cell, 0, item);
                                else memcpy(cell, plane + (size_t)((i * in[1] + j) * in[2] + k) *
                                            item, item);
                            }
            }
            int64_t some = rows / groups;
            if (depth && spots && some)
                product(x->dtype, weight->data + (size_t)(g * some * depth) * item, unfolded->data,
                        (*out)->data + (size_t)((b * rows + g * some) * spots) * item, some, spots,
                        depth);
        }
    adj_destroy(unfolded);
    return code;
}

adj_code adj_max_pool(const adj_tensor *x, int space, const int64_t *windows, adj_tensor **out) {
    RESULT(out);
    GIVEN(x);
    GIVEN(windows);
    if (x->dtype > ADJ_FLOAT64) return fail(ADJ_DTYPE, "adj_max_pool: floats");
    if (space < 1 || space > 3 || space > x->rank)
        return fail(ADJ_SHAPE, "adj_max_pool: 1 to 3 dimensions of space");
    int64_t in[3] = {1, 1, 1}, size[3] = {1, 1, 1}, step[3] = {1, 1, 1}, low[3] = {0, 0, 0};
    int64_t to[3] = {1, 1, 1}, shape[ADJ_RANK], outer = 1;
    memcpy(shape, x->shape, sizeof shape);
    for (int d = 0; d < x->rank - space; d++) outer *= x->shape[d];
    for (int d = 0; d < space; d++) {
        int e = d + 3 - space;
        in[e] = x->shape[x->rank - space + d];
        size[e] = windows[4 * d], step[e] = windows[4 * d + 1], low[e] = windows[4 * d + 2];
        to[e] = shape[x->rank - space + d] = windows[4 * d + 3];
        if (size[e] < 1 || step[e] < 1 || low[e] < 0 || low[e] >= size[e] || to[e] < 0 ||
            (to[e] && (to[e] - 1) * step[e] - low[e] >= in[e]))
            return fail(ADJ_SHAPE, "adj_max_pool: windows that reach beyond the tensor");
    }
    TRY(make(x->dtype, x->rank, shape, out));
    int64_t at = 0;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t p = 0; p < to[0]; p++)
            for (int64_t q = 0; q < to[1]; q++)
                for (int64_t r = 0; r < to[2]; r++, at++) {
                    double best = -1.0 / 0.0;
                    for (int64_t t = 0; t < size[0] * size[1] * size[2]; t++) {
                        int64_t i = place(p * step[0] - low[0] + t / size[2] / size[1], in[0]);
                        int64_t j = place(q * step[1] - low[1] + t / size[2] % size[1], in[1]);
                        int64_t k = place(r * step[2] - low[2] + t % size[2], in[2]);
                        if (i < 0 || j < 0 || k < 0) continue;
                        double v = as_double(x, ((o * in[0] + i) * in[1] + j) * in[2] + k);
                        if (best == best && (v != v || v > best)) best = v;
                    }
                    if (x->dtype == ADJ_FLOAT32) ((float *)(*out)->data)[at] = (float)best;
                    else ((double *)(*out)->data)[at] = best;
                }
    return ADJ_OK;
}
