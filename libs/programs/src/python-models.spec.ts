import { beforeAll, describe, expect, it } from 'vitest';
import { bootGuest } from '../../kits/wasi-python/spec/guest.js';
import { BUILTIN, ENUMS, GROWING, HOSTILE, hostile, NAMES, ORDER, tool } from '../spec/sample-tools.js';
import { toolModels } from './python-models.js';

const MODULES = {
  builtin: toolModels(BUILTIN),
  order: toolModels([
    { ...ORDER, output_schema: { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] } },
  ]),
  names: toolModels(NAMES),
  growing: toolModels(GROWING),
  enums: toolModels([ENUMS]),
  nothing: toolModels([]),
  odd: toolModels([
    tool('odd', {
      properties: { model_id: {}, json: {}, json_: {}, Item: {}, str: {}, 'a b': {}, 'a-b': {}, '1st': {}, '': {} },
    }),
  ]),
  ...Object.fromEntries(HOSTILE.map((text, index) => [`hostile ${index}`, toolModels([hostile(text)])])),
};

/** What CPython reads in a module: its classes with their fields, and everything that importing it would run besides. */
interface Seen {
  fields: Record<string, string[]>;
  tools: Record<string, string>;
  docs: Record<string, string>;
  others: string[];
}

/**
 * Importing a module runs it. Only these run: imports, classes, docstrings, fields with constants, `ABSENT` or `Field(…)` of them as values.
 * Annotations are not evaluated by the module; pydantic evaluates them, so they consist of names, constants, subscripts and unions.
 */
const READER = `
import ast, json, warnings
warnings.simplefilter("error")
ANNOTATION = (ast.Name, ast.Load, ast.Constant, ast.Subscript, ast.Tuple, ast.BinOp, ast.BitOr, ast.UnaryOp, ast.USub)
def is_type(node): return all(isinstance(part, ANNOTATION) for part in ast.walk(node))
def is_constant(node):
    try: ast.literal_eval(node); return True
    except ValueError: return isinstance(node, ast.Name) and node.id == "ABSENT"
def is_value(node):
    if node is None or is_constant(node): return True
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Field" and not node.args and all(is_constant(k.value) for k in node.keywords)
def read(text):
    compile(text, "tools.py", "exec", dont_inherit=True)
    seen = {"fields": {}, "tools": {}, "docs": {}, "others": []}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom) and node.module in ("__future__", "typing", "pydantic", "toolfleet"): continue
        if not isinstance(node, ast.ClassDef) or not all(map(is_type, node.bases)) or not all(is_constant(k.value) for k in node.keywords):
            seen["others"].append(ast.dump(node)); continue
        assert node.name not in seen["fields"], node.name
        seen["fields"][node.name] = fields = []
        for keyword in node.keywords: seen["tools"][node.name] = keyword.value.value
        seen["docs"][node.name] = ast.get_docstring(node)
        for member in node.body:
            if isinstance(member, ast.AnnAssign) and is_type(member.annotation) and is_value(member.value):
                assert member.target.id not in fields, member.target.id
                fields.append(member.target.id)
            elif not (isinstance(member, ast.Expr) and isinstance(member.value, ast.Constant)): seen["others"].append(ast.dump(member))
    return seen
print(json.dumps({name: read(text) for name, text in args.items()}))`;

let seen: Record<string, Seen>;
beforeAll(() => {
  const ran = bootGuest().run(READER, { args: MODULES });
  if (ran.stdout === '') throw new Error(ran.stderr);
  seen = JSON.parse(ran.stdout) as Record<string, Seen>;
});

describe('models of tools', () => {
  it('show what schemas say', () => {
    expect(MODULES.order)
      .toBe(`# Models of tools, for the Python package toolfleet: await fleet.call(Calculator(expression="6 * 7"))
from __future__ import annotations

from typing import Literal

from toolfleet import ABSENT, ToolCall, ToolModel


class OrderPutOutput(ToolModel):
    id: str


class OrderPutCustomer(ToolModel):
    name: str  # Full name
    age: int | None = ABSENT


class OrderPutItem(ToolModel):
    id: str
    n: Literal[1] = ABSENT


class OrderPut(ToolCall[OrderPutOutput], tool="order_put"):
    """Does order_put."""

    customer: OrderPutCustomer
    item: OrderPutItem
    limit: int = 10
    tags: list[Literal["new", "paid", None]] = ABSENT
    labels: dict[str, float] = ABSENT
    when: str | int = ABSENT
`);
  });

  it('have a class for each tool, whatever its name', () => {
    expect(seen['names']!.tools).toEqual({
      CrmFind: 'crm-find',
      CrmFind2: 'crm_find',
      ...{ Import: 'import', T2fa: '2fa', List: 'list', Search: 'search', Init: '__init__', Any2: 'Any', Mail: 'mail' },
    });
    const none = toolModels([tool('none', {}), tool('true', {})]);
    expect(none).toContain('class None2(ToolCall[Any], tool="none"):');
    expect(none).toContain('class True2(ToolCall[Any], tool="true"):');
  });

  it('rename fields that Python or pydantic reserves, and keep their names in JSON', () => {
    expect(seen['names']!.fields['Mail']).toEqual(['from_', 'x_y_', 'self_', 'gr_e_', 'private_']);
    expect(MODULES.names).toContain('from_: str = Field(validation_alias="from", serialization_alias="from")');
    expect(seen['odd']!.fields['Odd']).toEqual([
      ...['field_model_id_', 'json_2', 'json_', 'Item_', 'str_', 'a_b_', 'a_b_2', 'field_1st_', 'field_'],
    ]);
  });

  it('run nothing but classes and constants when they are imported, whatever the texts', () => {
    expect(Object.fromEntries(Object.entries(seen).map(([name, { others }]) => [name, others]))).toEqual(
      Object.fromEntries(Object.keys(MODULES).map((name) => [name, []])),
    );
    const flat = (text: string) =>
      text
        .toWellFormed()
        .replaceAll(/[\s\p{Cc}]+/gu, ' ')
        .trim();
    for (const [index, text] of HOSTILE.entries())
      expect(flat(seen[`hostile ${index}`]!.docs['Say']!)).toBe(flat(text));
  });

  it('are bounded for schemas that grow', () => {
    expect(MODULES.growing.length).toBeLessThan(60_000);
    expect(MODULES.growing).toContain('class TreeNode(ToolModel):\n    next: TreeNode = ABSENT');
  });
});
