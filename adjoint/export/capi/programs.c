/* Programs: graphs in files, checked when they are read, run node by node.
 *
 * A file is little-endian: "ADJPROG1"; how many inputs, constants, nodes and outputs there are (four
 * 32-bit numbers); the constants (dtype, rank, sizes as 64-bit numbers, elements); the nodes (a
 * name of at most 31 bytes in 32, how many operands and whole numbers, operands as the numbers of
 * values, whole numbers); the values that are outputs. Values are numbered: inputs, constants, then
 * what each node makes. */

enum { NAME = 32, OPERANDS = 64, NUMBERS = 64 };

struct node {
    char name[NAME];
    int operands, numbers;
    int operand[OPERANDS];
    int64_t number[NUMBERS];
};

struct adj_program {
    int inputs, constants, nodes, outputs;
    adj_tensor **constant;
    struct node *node;
    int *output;
    int *last; /* the node that needs a value last; -1 for outputs */
};

struct reader {
    const unsigned char *at;
    size_t left;
};

static int take(struct reader *from, void *to, size_t bytes) {
    if (bytes > from->left) return 0;
    memcpy(to, from->at, bytes);
    from->at += bytes;
    from->left -= bytes;
    return 1;
}

static int take_count(struct reader *from, int *to, int most) {
    int32_t n;
    if (!take(from, &n, 4) || n < 0 || n > most) return 0;
    *to = (int)n;
    return 1;
}

void adj_program_destroy(adj_program *p) {
    if (!p) return;
    for (int k = 0; p->constant && k < p->constants; k++) adj_destroy(p->constant[k]);
    free(p->constant);
    free(p->node);
    free(p->output);
    free(p->last);
    free(p);
}

int adj_program_inputs(const adj_program *p) { return p ? p->inputs : -1; }
int adj_program_outputs(const adj_program *p) { return p ? p->outputs : -1; }

static int read_constant(struct reader *from, adj_tensor **to) {
    int dtype, rank;
    int64_t shape[ADJ_RANK];
    if (!take_count(from, &dtype, ADJ_BOOL) || !take_count(from, &rank, ADJ_RANK) ||
        !take(from, shape, 8 * (size_t)rank))
        return 0;
    size_t count = 1;
    for (int d = 0; d < rank; d++) { /* no more than the file has is asked of the system */
        if (shape[d] < 0 || (shape[d] && count > from->left / (size_t)shape[d])) return 0;
        count *= (size_t)shape[d];
    }
    if (count > from->left / (size_t)item_bytes[dtype]) return 0;
    size_t bytes = count * (size_t)item_bytes[dtype];
    if (adj_from_memory((adj_dtype)dtype, rank, shape, from->at, bytes, to) != ADJ_OK) return 0;
    from->at += bytes;
    from->left -= bytes;
    return 1;
}

static int read_node(struct reader *from, struct node *to, int values) {
    if (!take(from, to->name, NAME) || to->name[NAME - 1] ||
        !take_count(from, &to->operands, OPERANDS) || !take_count(from, &to->numbers, NUMBERS))
        return 0;
    for (int k = 0; k < to->operands; k++)
        if (!take_count(from, &to->operand[k], values - 1)) return 0;
    return take(from, to->number, 8 * (size_t)to->numbers);
}

static adj_code no_program(adj_program *p) {
    adj_program_destroy(p);
    return fail(ADJ_FILE, "adj_program: no program of Adjoint's, or one that is cut off");
}

adj_code adj_program_parse(const void *bytes, size_t count, adj_program **out) {
    RESULT(out);
    GIVEN(bytes);
    struct reader from = {bytes, count};
    char magic[8];
    adj_program *p = calloc(1, sizeof *p);
    if (!p) return fail(ADJ_MEMORY, "no memory for a program");
    const int most = 1 << 20;
    if (!take(&from, magic, 8) || memcmp(magic, "ADJPROG1", 8) ||
        !take_count(&from, &p->inputs, most) || !take_count(&from, &p->constants, most) ||
        !take_count(&from, &p->nodes, most) || !take_count(&from, &p->outputs, most) ||
        /* each is at least so long, so these numbers are no larger than the file */
        (size_t)p->constants * 8 + (size_t)p->nodes * 40 + (size_t)p->outputs * 4 > from.left) {
        p->constants = 0;
        return no_program(p);
    }
    int values = p->inputs + p->constants;
    p->constant = calloc((size_t)p->constants + 1, sizeof *p->constant);
    p->node = calloc((size_t)p->nodes + 1, sizeof *p->node);
    p->output = calloc((size_t)p->outputs + 1, sizeof *p->output);
    p->last = calloc((size_t)(values + p->nodes) + 1, sizeof *p->last);
    if (!p->constant || !p->node || !p->output || !p->last) {
        adj_program_destroy(p);
        return fail(ADJ_MEMORY, "no memory for a program");
    }
    for (int k = 0; k < p->constants; k++)
        if (!read_constant(&from, &p->constant[k])) return no_program(p);
    for (int k = 0; k < p->nodes; k++) {
        if (!read_node(&from, &p->node[k], values + k)) return no_program(p);
        for (int j = 0; j < p->node[k].operands; j++) p->last[p->node[k].operand[j]] = k;
        p->last[values + k] = k;
    }
    for (int k = 0; k < p->outputs; k++) {
        if (!take_count(&from, &p->output[k], values + p->nodes - 1)) return no_program(p);
        p->last[p->output[k]] = -1;
    }
    *out = p;
    return ADJ_OK;
}

adj_code adj_program_load(const char *path, adj_program **out) {
    RESULT(out);
    GIVEN(path);
    FILE *file = fopen(path, "rb");
    if (!file) return fail(ADJ_FILE, "adj_program_load: no file %.200s", path);
    long size = fseek(file, 0, SEEK_END) ? -1 : ftell(file);
    unsigned char *bytes = size < 0 ? NULL : malloc((size_t)size + 1);
    int whole_file = bytes && !fseek(file, 0, SEEK_SET) &&
                     fread(bytes, 1, (size_t)size, file) == (size_t)size;
    fclose(file);
    adj_code code = whole_file ? adj_program_parse(bytes, (size_t)size, out)
                               : fail(ADJ_FILE, "adj_program_load: %.200s cannot be read", path);
    free(bytes);
    return code;
}

/* What a node of a name does; `x` are its operands. */
static adj_code run_node(const struct node *node, const adj_tensor *const *x, adj_tensor **out) {
    const char *name = node->name;
    const int64_t *n = node->number;
    int operands = node->operands, numbers = node->numbers;
#define IS(what, count, least) (!strcmp(name, what) && operands == (count) && numbers >= (least))
    if (IS("matmul", 2, 0)) return adj_matmul(x[0], x[1], out);
    if (IS("reshape", 1, 0)) return adj_reshape(x[0], numbers, n, out);
    if (IS("expand", 1, 0)) return adj_expand(x[0], numbers, n, out);
    if (IS("permute", 1, x[0]->rank)) return adj_permute(x[0], n, out);
    if (IS("slice", 1, 3 * x[0]->rank)) return adj_slice(x[0], n, out);
    if (IS("where", 3, 0)) return adj_where(x[0], x[1], x[2], out);
    if (IS("index", 2, 0)) return adj_rows(x[0], x[1], out);
    if (IS("cast", 1, 1)) return adj_cast(x[0], (adj_dtype)n[0], out);
    if (IS("argmax", 1, 2)) return adj_argmax(x[0], (int)n[0], (int)n[1], out);
    if (IS("max_pool", 1, 4)) return adj_max_pool(x[0], numbers / 4, n, out);
    if (!strcmp(name, "cat") && operands > 0 && numbers == 1)
        return adj_concatenate(x, operands, (int)n[0], out);
    if (IS("convolution", 2, 1) && x[0]->rank > 2) {
        int space = x[0]->rank - 2;
        if (numbers == 4 * space + 1)
            return adj_convolution(x[0], x[1], n, n + space, n + 3 * space, n[4 * space], out);
    }
    if (operands == 1 && numbers >= 1 &&
        (!strcmp(name, "sum") || !strcmp(name, "prod") || !strcmp(name, "amax") ||
         !strcmp(name, "amin")))
        return numbers == 1 && x[0]->rank
                   ? adj_reshape(x[0], x[0]->rank, x[0]->shape, out)
                   : adj_reduce(name, x[0], n + 1, numbers - 1, (int)n[0], out);
    if (operands == 1 && !numbers) return adj_unary(name, x[0], out);
    if (operands == 2 && !numbers) return adj_binary(name, x[0], x[1], out);
    return fail(ADJ_FILE, "adj_program_run: no operation %s of %d operands", name, operands);
}

adj_code adj_program_run(const adj_program *p, const adj_tensor *const *inputs,
                         adj_tensor **outputs) {
    GIVEN(p);
    if (p->inputs) GIVEN(inputs);
    GIVEN(outputs);
    for (int k = 0; k < p->inputs; k++) GIVEN(inputs[k]);
    for (int k = 0; k < p->outputs; k++) outputs[k] = NULL;
    int first = p->inputs + p->constants, values = first + p->nodes;
    const adj_tensor **value = calloc((size_t)values + 1, sizeof *value);
    adj_tensor **made = calloc((size_t)p->nodes + 1, sizeof *made);
    adj_code code = value && made ? ADJ_OK : fail(ADJ_MEMORY, "no memory to run a program");
    for (int k = 0; code == ADJ_OK && k < first; k++)
        value[k] = k < p->inputs ? inputs[k] : p->constant[k - p->inputs];
    for (int k = 0; code == ADJ_OK && k < p->nodes; k++) {
        const struct node *node = &p->node[k];
        const adj_tensor *x[OPERANDS];
        for (int j = 0; j < node->operands; j++) x[j] = value[node->operand[j]];
        code = node->operands ? run_node(node, x, &made[k])
                              : fail(ADJ_FILE, "adj_program_run: %s of nothing", node->name);
        value[first + k] = made[k];
        for (int j = 0; j < node->operands; j++) {
            int v = node->operand[j];
            if (v >= first && p->last[v] == k) {
                adj_destroy(made[v - first]);
                made[v - first] = NULL;
            }
        }
    }
    for (int k = 0; code == ADJ_OK && k < p->outputs; k++) {
        const adj_tensor *y = value[p->output[k]];
        code = adj_reshape(y, y->rank, y->shape, &outputs[k]);
    }
    for (int k = 0; code != ADJ_OK && k < p->outputs; k++) {
        adj_destroy(outputs[k]);
        outputs[k] = NULL;
    }
    for (int k = 0; made && k < p->nodes; k++) adj_destroy(made[k]);
    free(made);
    free(value);
    return code;
}
