/**
 * The interpreter that the specs use: the packaged one, or another one set by the service's own variables:
 * `PYTHON_WASI_WASM_PATH=… PYTHON_WASI_STDLIB_PATH=… npm test -- libs/kits/wasi-python apps/python-sandbox`.
 */
import { type InterpreterSource, namedInterpreter } from '../src/wasi/interpreter.js';

const { PYTHON_WASI_WASM_PATH: wasmPath, PYTHON_WASI_STDLIB_PATH: stdlibPath } = process.env;
export const INTERPRETER: InterpreterSource = { ...namedInterpreter(wasmPath, stdlibPath), tableLimit: 10_000 };
