/**
 * The used part of the WebAssembly API. TypeScript ships these types only in its DOM library; this would also declare
 * `document` and `fetch`, forbidden for this code.
 */
declare namespace WebAssembly {
  /** A compiled module; structured clone shares its code between threads. */
  class Module {
    private readonly brand;
    constructor(bytes: ArrayBuffer | Uint8Array<ArrayBuffer>);
    static imports(module: Module): { module: string; name: string; kind: string }[];
  }
  class Instance {
    constructor(module: Module, imports: Record<string, object>);
    readonly exports: Record<string, unknown>;
  }
  class Memory {
    constructor(pages: { initial: number; maximum: number });
    /** A new object after each growth; the old one is detached. */
    readonly buffer: ArrayBuffer;
  }
  class Table {
    private readonly brand;
    get(index: number): unknown;
  }
  class Global {
    value: unknown;
    private readonly brand;
  }
}
