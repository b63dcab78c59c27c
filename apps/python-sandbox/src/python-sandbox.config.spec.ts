import { describe, expect, it } from 'vitest';
import { pythonSandboxConfig } from './python-sandbox.config.js';

describe('the interpreter', () => {
  it('accepts a library only for a named module', () => {
    const faults = (stdlib: string, wasm?: string) =>
      pythonSandboxConfig.check?.({ PYTHON_WASI_STDLIB_PATH: stdlib, PYTHON_WASI_WASM_PATH: wasm } as never);
    expect(faults('/lib')).toMatchObject([{ key: 'PYTHON_WASI_STDLIB_PATH' }]);
    expect(faults('/lib', '/a.wasm')).toEqual([]);
  });
});
