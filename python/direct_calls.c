/* SPDX-License-Identifier: Apache-2.0 */
/* muster_python_make as a function of the module itself, without cffi. To convert its arguments
 * there, and to read its result in Python, took a fifth of the instructions of an add. Among many
 * ranks of a node none of them is in the processor's cache any more when a rank goes on. What is
 * rare is left to Python.
 *
 * cffi's module has no place for such a function: its PyInit is renamed, and called by the one
 * here. */

static PyObject *muster_python_name_of, *muster_python_milliseconds, *muster_python_finish;

/* make_with(name_of, milliseconds, finish) */
static PyObject *muster_python_make_with(PyObject *module, PyObject *args)
{
    (void)module;
    if (!PyArg_ParseTuple(args, "OOO", &muster_python_name_of, &muster_python_milliseconds,
                          &muster_python_finish)) {
        return NULL;
    }
    Py_INCREF(muster_python_name_of);
    Py_INCREF(muster_python_milliseconds);
    Py_INCREF(muster_python_finish);
    Py_RETURN_NONE;
}

/* A new reference to bytes without a NUL among them: what is not that already, name_of refuses. */
static int muster_python_to_name(PyObject *given, void *out)
{
    PyObject *name = NULL;

    if (PyUnicode_CheckExact(given)) {
        name = PyUnicode_AsEncodedString(given, "utf-8", "surrogateescape");
    } else if (PyBytes_CheckExact(given)) {
        name = given;
        Py_INCREF(name);
    }
    if (!PyErr_Occurred() &&
        (!name || strlen(PyBytes_AsString(name)) != (size_t)PyBytes_Size(name))) {
        Py_XDECREF(name);
        name = PyObject_CallFunctionObjArgs(muster_python_name_of, given, NULL);
    }
    *(PyObject **)out = name;
    return name != NULL;
}

static int muster_python_to_unsigned(PyObject *given, void *out)
{
    PyObject *number = PyNumber_Index(given);

    if (number) {
        *(uint64_t *)out = PyLong_AsUnsignedLongLong(number);
        Py_DECREF(number);
    }
    return !PyErr_Occurred();
}

static int muster_python_to_timeout_ms(PyObject *given, void *out)
{
    PyObject *number;

    if (given == Py_None) {
        *(int64_t *)out = -1;
        return 1;
    }
    number = PyObject_CallFunctionObjArgs(muster_python_milliseconds, given, NULL);
    if (number) {
        *(int64_t *)out = PyLong_AsLongLong(number);
        Py_DECREF(number);
    }
    return !PyErr_Occurred();
}

static PyObject *muster_python_result(int kind, const struct muster_python_box *box)
{
    switch (kind) {
    case MUSTER_PYTHON_ADD:
        return PyLong_FromLongLong(box->sum);
    case MUSTER_PYTHON_DELETE:
    case MUSTER_PYTHON_AWAIT:
    case MUSTER_PYTHON_BARRIER:
        Py_RETURN_NONE;
    default:
        return PyLong_FromUnsignedLongLong(box->revision);
    }
}

/* make(gate, kind, name, data, number, generation, owned, timeout): the call's sum or revision,
 * None if it has neither, of READ what finish(status, box) returns. `gate` and `box` are addresses.
 */
static PyObject *muster_python_make_method(PyObject *module, PyObject *args)
{
    struct muster_python_box box;
    PyObject *name = NULL, *data, *result;
    const char *text, *bytes;
    PyThreadState *thread;
    unsigned long long gate;
    long long number;
    uint64_t generation;
    int64_t timeout_ms;
    size_t size;
    int kind, owned, status;

    (void)module;
    box.call = NULL;
    box.value = NULL;
    if (!PyArg_ParseTuple(args, "KiO&SLO&pO&", &gate, &kind, muster_python_to_name, &name, &data,
                          &number, muster_python_to_unsigned, &generation, &owned,
                          muster_python_to_timeout_ms, &timeout_ms)) {
        Py_XDECREF(name);
        return NULL;
    }
    text = PyBytes_AsString(name);
    bytes = PyBytes_AsString(data);
    size = (size_t)PyBytes_Size(data);
    thread = PyEval_SaveThread();
    status = muster_python_make((muster_python_gate *)(uintptr_t)gate, &box, kind, text, bytes,
                                size, number, generation, owned, timeout_ms);
    PyEval_RestoreThread(thread);
    if (status == MUSTER_OK && !box.value) {
        result = muster_python_result(kind, &box);
    } else {
        result = PyObject_CallFunction(muster_python_finish, "iK", status,
                                       (unsigned long long)(uintptr_t)&box);
        if (result && !box.value) {
            Py_DECREF(result);
            result = muster_python_result(kind, &box);
        }
    }
    if (box.call || box.value) {
        thread = PyEval_SaveThread();
        muster_python_end(&box);
        PyEval_RestoreThread(thread);
    }
    Py_DECREF(name);
    return result;
}

static PyMethodDef muster_python_methods[] = {
    {"make", muster_python_make_method, METH_VARARGS, NULL},
    {"make_with", muster_python_make_with, METH_VARARGS, NULL},
};

/* cffi's own, which makes the module. */
PyMODINIT_FUNC muster_python_module(void);

PyMODINIT_FUNC PyInit__muster(void)
{
    PyObject *module = muster_python_module();

    for (size_t i = 0;
         module && i < sizeof(muster_python_methods) / sizeof(muster_python_methods[0]); i++) {
        PyObject *method = PyCFunction_NewEx(&muster_python_methods[i], NULL, NULL);

        if (!method || PyModule_AddObject(module, muster_python_methods[i].ml_name, method) != 0) {
            return NULL;
        }
    }
    return module;
}
#define PyInit__muster muster_python_module
