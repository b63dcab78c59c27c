import type { JsonObject } from '@toolfleet/contracts';
import { beforeAll, describe, expect, it } from 'vitest';
import { bootGuest } from '../../kits/wasi-python/spec/guest.js';
import { BUILTIN, ENUMS, GROWING, HOSTILE, hostile, NAMES, ORDER, tool } from '../spec/sample-tools.js';
import { toolSignature, toolStubs } from './tool-signature.js';

const STUBS = {
  builtin: toolStubs(BUILTIN),
  order: toolStubs([ORDER]),
  names: toolStubs(NAMES),
  growing: toolStubs(GROWING),
  enums: toolStubs([ENUMS]),
  nothing: toolStubs([]),
  ...Object.fromEntries(HOSTILE.map((text) => [text, toolStubs([hostile(text)])])),
};

/** What CPython reads in a stub: its classes, the methods of `Tools` with their parameters, and docstrings. */
interface Seen {
  classes: string[];
  methods: Record<string, string[]>;
  docs: Record<string, string>;
}

/** Compiles stubs, to find also faults beyond a syntax tree, such as two parameters of one name. */
const READER = `
import ast, json, warnings
warnings.simplefilter("error")
def read(text):
    compile(text, "tools.pyi", "exec", dont_inherit=True)
    classes, methods, docs = [], {}, {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign): classes.append(node.targets[0].id)
        if not isinstance(node, ast.ClassDef): continue
        classes.append(node.name)
        for f in node.body:
            if not isinstance(f, ast.FunctionDef): continue
            name = f.name if node.name == "Tools" else node.name
            methods[name] = [a.arg for a in f.args.kwonlyargs] + ([f"**{f.args.kwarg.arg}"] if f.args.kwarg else [])
            docs[name] = ast.get_docstring(f)
    return {"classes": classes, "methods": methods, "docs": docs}
print(json.dumps({name: read(text) for name, text in args.items()}))`;

let seen: Record<string, Seen>;
beforeAll(() => {
  const ran = bootGuest().run(READER, { args: STUBS });
  if (ran.stdout === '') throw new Error(ran.stderr);
  seen = JSON.parse(ran.stdout) as Record<string, Seen>;
});

describe('a stub', () => {
  it('of the builtin tools has a typed method for each of them', () => {
    for (const { name, input_schema: schema } of BUILTIN)
      expect(new Set(seen['builtin']?.methods[name])).toEqual(new Set(Object.keys(schema.properties as JsonObject)));
    expect(STUBS.builtin).toMatch(/^ {4}def calculator\(self, \*, expression: str.*\) -> CalculatorResult:$/m);
  });

  it('has types: classes of objects, literals, lists, defaults and optional members', () => {
    expect(STUBS.order)
      .toBe(`# Call tools with keyword arguments: tools.name(key=value). A parameter with "= ..." is optional.
from typing import Any, Literal, NotRequired, TypedDict

class OrderPutCustomer(TypedDict):
    name: str  # Full name
    age: NotRequired[int | None]

class OrderPutItem(TypedDict):
    id: str
    n: NotRequired[Literal[1]]

class Tools:
    def order_put(
        self,
        *,
        customer: OrderPutCustomer,
        item: OrderPutItem,
        limit: int = 10,
        tags: list[Literal["new", "paid", None]] = ...,
        labels: dict[str, float] = ...,
        when: str | int = None,
    ) -> Any:
        """Does order_put."""

tools: Tools
`);
  });

  it('has items for names that are not attributes, and a dictionary for names that are not parameters', () => {
    expect(Object.keys(seen['names']!.methods)).toEqual(
      'CrmFind Import T2fa List Search Init crm_find Any mail __getitem__'.split(' '),
    );
    expect(STUBS.names).toContain(
      'class CrmFind(Protocol):  # tools["crm-find"](…)\n    def __call__(self, *, q: str = ...)',
    );
    expect(STUBS.names).toContain(
      '    @overload\n    def __getitem__(self, name: Literal["crm-find"]) -> CrmFind: ...',
    );
    expect(seen['names']?.methods['mail']).toEqual(['**arguments']);
    expect(STUBS.names).toContain(
      'MailArguments = TypedDict("MailArguments", {\n    "from": str,\n    "x-y": NotRequired[',
    );
  });

  it('closes schemas that refer to themselves, and bounds what grows', () => {
    expect(STUBS.growing).toContain(
      'class TreeNode(TypedDict):\n    next: NotRequired[TreeNode]\n    all: NotRequired[list[TreeNode]]',
    );
    expect(seen['growing']?.methods['tree']).toEqual(['root', 'loop', 'list', 'broken']);
    expect(seen['growing']!.classes.length).toBeLessThan(120);
    expect(STUBS.growing.length).toBeLessThan(60_000);
  });

  it('names the type of a long enumeration and of values that are not literals', () => {
    expect(STUBS.enums).toContain('one: str = ..., f: float | dict[str, Any] | list[Any] = ..., none: Any = ...');
    expect(seen['enums']?.docs['pick']).toContain('one: (one of 5000 values)');
  });

  it.each(HOSTILE)('survives the text %j in every place', (text) => {
    expect(seen[text]?.methods['say']).toEqual(['a', 'b']);
    expect(seen[text]?.classes).toEqual(['SayB', 'SayResult', 'Tools']);
    if (!/\p{Cc}|\p{Cs}/u.test(text)) expect(seen[text]?.docs['say']).toContain(text);
  });
});

describe('a signature', () => {
  it('is one line, with objects as dict', () => {
    const city = { type: 'object', properties: { x: {} } };
    const input = { properties: { days: { type: 'integer', default: 3 }, city, from: {} }, required: ['city'] };
    expect(toolSignature(tool('weather', input))).toBe('weather(*, city: dict, days: int = 3, **{"from": Any}) -> Any');
    const output_schema = { type: 'array', items: { type: 'string' } };
    expect(toolSignature(tool('a-b', {}, { output_schema }))).toBe('tools["a-b"]() -> list[str]');
  });
});
