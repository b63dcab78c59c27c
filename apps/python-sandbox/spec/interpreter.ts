/**
 * The interpreter that the specs run: the packaged one, or any that an operator could name, by the service's own keys:
 * `PYTHON_WASI_WASM_PATH=… PYTHON_WASI_STDLIB_PATH=… npm test -- apps/python-sandbox`.
 */
import { type InterpreterSource, namedInterpreter } from '../src/wasi/interpreter.js';

const { PYTHON_WASI_WASM_PATH: wasmPath, PYTHON_WASI_STDLIB_PATH: stdlibPath } = process.env;
export const INTERPRETER: InterpreterSource = { ...namedInterpreter(wasmPath, stdlibPath), tableLimit: 10_000 };
