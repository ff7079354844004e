/* The way from Python to the kernels: checks and unpacks arguments, releases the interpreter lock, calls.

   The build links this file with the kernels, which come as one table. Every kernel has the same form: it reads
   its arguments from the 64-bit words of a frame and writes its results over them.

   Only the stable ABI of CPython 3.11 and later is used, and what is needed of it is declared here: compilers
   are more common than Python's headers. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- the stable ABI */

typedef struct _object PyObject;
typedef ptrdiff_t Py_ssize_t;
typedef PyObject *(*PyCFunction)(PyObject *, PyObject *);

typedef struct {
    void *buf;
    PyObject *obj;
    Py_ssize_t len, itemsize;
    int readonly, ndim;
    char *format;
    Py_ssize_t *shape, *strides, *suboffsets;
    void *internal;
} Py_buffer;

typedef struct {
    const char *ml_name;
    PyCFunction ml_meth;
    int ml_flags;
    const char *ml_doc;
} PyMethodDef;

typedef struct {
    struct {
        Py_ssize_t references;
        void *type;
        PyObject *(*initialise)(void);
        Py_ssize_t index;
        PyObject *copy;
    } m_base;
    const char *m_name, *m_doc;
    Py_ssize_t m_size;
    PyMethodDef *m_methods;
    void *m_slots, *m_traverse, *m_clear, *m_free;
} PyModuleDef;

enum { METH_FASTCALL = 0x80, PyBUF_WRITABLE = 1, PyBUF_FORMAT = 4, PyBUF_STRIDES = 0x18, PyBUF_C_CONTIGUOUS = 0x38 };
enum { ABI = 3 };

extern PyObject *PyExc_IndexError, *PyExc_RuntimeError, *PyExc_TypeError, _Py_NoneStruct;

extern PyObject *PyBool_FromLong(long);
extern void PyBuffer_Release(Py_buffer *);
extern PyObject *PyCapsule_New(void *, const char *, void *);
extern void *PyCapsule_GetPointer(PyObject *, const char *);
extern PyObject *PyCFunction_NewEx(PyMethodDef *, PyObject *, PyObject *);
extern PyObject *PyErr_Format(PyObject *, const char *, ...);
extern PyObject *PyErr_NoMemory(void);
extern PyObject *PyErr_Occurred(void);
extern void *PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void *);
extern long long PyLong_AsLongLong(PyObject *);
extern unsigned long long PyLong_AsUnsignedLongLong(PyObject *);
extern PyObject *PyLong_FromLongLong(long long);
extern PyObject *PyLong_FromUnsignedLongLong(unsigned long long);
extern int PyModule_AddObjectRef(PyObject *, const char *, PyObject *);
extern PyObject *PyModule_Create2(PyModuleDef *, int);
extern PyObject *PyNumber_Index(PyObject *);
extern int PyObject_GetBuffer(PyObject *, Py_buffer *, int);
extern int PyObject_IsTrue(PyObject *);
extern PyObject *PyTuple_New(Py_ssize_t);
extern int PyTuple_SetItem(PyObject *, Py_ssize_t, PyObject *);
extern PyObject *PyUnicode_FromString(const char *);
extern void Py_DecRef(PyObject *);
extern void Py_IncRef(PyObject *);

/* ---- the table of kernels, written by the build */

enum { MOST_ARGUMENTS = 24, MOST_WORDS = 80 };

typedef struct {
    char type;       /* as in Python's struct module: q, i, B, ? in arrays, also Q and ? alone */
    char dimensions; /* 0 where it is a number */
    char is_strided;
    char is_const;
} Argument;

typedef struct {
    const char *name, *signature;
    int32_t (*run)(int64_t *frame);
    const Argument *arguments;
    const char *results; /* a type each */
    int32_t argument_count, result_count;
} Kernel;

extern const Kernel tidelog_kernels[];
extern const int64_t tidelog_kernel_count;

/* ---- what Numba's code calls: arrays that live within a call. A failure is remembered for the exception. */

static _Thread_local int is_memory_gone;

typedef struct {
    int64_t references;
    void *destroy, *destroy_argument, *data;
    size_t size;
} Memory;

void *NRT_MemInfo_alloc_aligned(size_t size, uint32_t alignment) {
    size_t room = sizeof(Memory) + alignment;
    Memory *memory = size > SIZE_MAX - room ? NULL : malloc(size + room);
    if (!memory) {
        is_memory_gone = 1;
        return NULL;
    }
    uintptr_t data = ((uintptr_t)(memory + 1) + alignment - 1) / alignment * alignment;
    *memory = (Memory){1, NULL, NULL, (void *)data, size};
    return memory;
}

void *NRT_MemInfo_alloc_safe_aligned(size_t size, uint32_t alignment) {
    return NRT_MemInfo_alloc_aligned(size, alignment);
}

void NRT_MemInfo_call_dtor(Memory *memory) { free(memory); }

void NRT_incref(Memory *memory) {
    if (memory) __atomic_add_fetch(&memory->references, 1, __ATOMIC_RELAXED);
}

void NRT_decref(Memory *memory) {
    if (memory && __atomic_sub_fetch(&memory->references, 1, __ATOMIC_ACQ_REL) == 0) free(memory);
}

/* ---- calls */

static int fits(const Py_buffer *view, const Argument *argument) {
    char type = view->format ? view->format[0] : 'B';
    if (type == 'l') type = 'q';
    return type == argument->type && (!view->format || !view->format[1]) && view->ndim == argument->dimensions;
}

static PyObject *result_of(char type, int64_t word) {
    switch (type) {
    case '?': return PyBool_FromLong(word != 0);
    case 'Q': return PyLong_FromUnsignedLongLong((uint64_t)word);
    default: return PyLong_FromLongLong(word);
    }
}

static PyObject *results_of(const Kernel *kernel, const int64_t *frame) {
    if (kernel->result_count == 0) {
        Py_IncRef(&_Py_NoneStruct);
        return &_Py_NoneStruct;
    }
    if (kernel->result_count == 1) return result_of(kernel->results[0], frame[0]);
    PyObject *tuple = PyTuple_New(kernel->result_count);
    for (int place = 0; tuple && place < kernel->result_count; place++) {
        PyObject *item = result_of(kernel->results[place], frame[place]);
        if (!item || PyTuple_SetItem(tuple, place, item) < 0) {
            Py_DecRef(tuple);
            return NULL;
        }
    }
    return tuple;
}

static int number_into(int64_t *word, PyObject *value, char type) {
    if (type == '?') {
        *word = PyObject_IsTrue(value);
        return *word >= 0;
    }
    if (type == 'q') {
        *word = PyLong_AsLongLong(value);
        return *word != -1 || !PyErr_Occurred();
    }
    PyObject *whole = PyNumber_Index(value);
    if (!whole) return 0;
    *word = (int64_t)PyLong_AsUnsignedLongLong(whole);
    Py_DecRef(whole);
    return *word != -1 || !PyErr_Occurred();
}

static PyObject *call(PyObject *self, PyObject *const *given, Py_ssize_t count) {
    const Kernel *kernel = PyCapsule_GetPointer(self, NULL);
    if (count != kernel->argument_count)
        return PyErr_Format(PyExc_TypeError, "%s takes %d arguments, not %zd", kernel->name, kernel->argument_count, count);
    Py_buffer views[MOST_ARGUMENTS];
    int64_t frame[MOST_WORDS], *word = frame;
    int viewed = 0;
    PyObject *result = NULL;
    for (Py_ssize_t place = 0; place < count; place++) {
        const Argument *argument = &kernel->arguments[place];
        if (!argument->dimensions) {
            if (!number_into(word++, given[place], argument->type)) goto done;
            continue;
        }
        Py_buffer *view = &views[viewed];
        int flags = PyBUF_FORMAT | (argument->is_strided ? PyBUF_STRIDES : PyBUF_C_CONTIGUOUS);
        if (PyObject_GetBuffer(given[place], view, flags | (argument->is_const ? 0 : PyBUF_WRITABLE)) < 0) goto done;
        viewed++;
        if (!fits(view, argument)) {
            PyErr_Format(PyExc_TypeError, "%s: argument %zd is an array of type %s with %d dimensions; its signature is %s",
                         kernel->name, place + 1, view->format ? view->format : "B", view->ndim, kernel->signature);
            goto done;
        }
        *word++ = (int64_t)(intptr_t)view->buf;
        for (int axis = 0; axis < view->ndim; axis++) *word++ = view->shape[axis];
        if (argument->is_strided)
            for (int axis = 0; axis < view->ndim; axis++) *word++ = view->strides[axis];
    }
    void *thread = PyEval_SaveThread();
    is_memory_gone = 0;
    int32_t status = kernel->run(frame);
    int is_gone = is_memory_gone;
    PyEval_RestoreThread(thread);
    if (!status) result = results_of(kernel, frame);
    else if (is_gone) PyErr_NoMemory();
    else PyErr_Format(PyExc_IndexError, "%s: an index is out of bounds, or a divisor is 0", kernel->name);
done:
    for (int place = 0; place < viewed; place++) PyBuffer_Release(&views[place]);
    return result;
}

/* ---- the module: for each kernel a pair of the function and its signature */

static PyModuleDef definition = {.m_base = {.references = 1}, .m_name = "_kernels", .m_size = -1};

static PyObject *pair_of(const Kernel *kernel, PyMethodDef *method) {
    *method = (PyMethodDef){kernel->name, (PyCFunction)(void (*)(void))call, METH_FASTCALL, kernel->signature};
    PyObject *capsule = PyCapsule_New((void *)kernel, NULL, NULL);
    PyObject *function = capsule ? PyCFunction_NewEx(method, capsule, NULL) : NULL;
    PyObject *signature = PyUnicode_FromString(kernel->signature);
    PyObject *pair = PyTuple_New(2);
    Py_DecRef(capsule);
    if (function && signature && pair) {
        PyTuple_SetItem(pair, 0, function);
        PyTuple_SetItem(pair, 1, signature);
        return pair;
    }
    Py_DecRef(function);
    Py_DecRef(signature);
    Py_DecRef(pair);
    return NULL;
}

__attribute__((visibility("default"))) PyObject *PyInit__kernels(void) {
    PyObject *module = PyModule_Create2(&definition, ABI);
    PyMethodDef *methods = calloc(tidelog_kernel_count, sizeof(PyMethodDef)); /* as long as the functions live */
    if (!module || !methods) return module ? PyErr_NoMemory() : NULL;
    for (int64_t place = 0; place < tidelog_kernel_count; place++) {
        PyObject *pair = pair_of(&tidelog_kernels[place], &methods[place]);
        int status = pair ? PyModule_AddObjectRef(module, tidelog_kernels[place].name, pair) : -1;
        Py_DecRef(pair);
        if (status < 0) return NULL;
    }
    return module;
}
