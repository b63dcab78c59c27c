import type { Json } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { aRequest, anEngine, failedReply, okReply, ScriptedExecutor } from '@toolfleet/testing/engine-fixture';
import { describe, expect, test } from 'vitest';
import { makeExecuteCall } from './execute-call.js';
import { Meter } from './ports.js';

const remote: Partial<RegisteredTool> = {
  binding: { kind: 'mcp', server: 's', transport: 'streamable-http', url: 'http://x', remoteName: 'r' },
  output_schema: { type: 'object', properties: { sum: { type: 'number' } }, required: ['sum'] },
};

class CountingMeter extends Meter {
  readonly mismatches: string[] = [];
  override outputMismatched({ name }: RegisteredTool): void {
    this.mismatches.push(name);
  }
}

async function run(tool: Partial<RegisteredTool>, reply: () => ReturnType<typeof okReply>) {
  const { ports, clock } = anEngine(tool, new ScriptedExecutor(reply));
  const meter = new CountingMeter();
  const result = await makeExecuteCall({ ...ports, meter })(aRequest(clock));
  return { result, mismatches: meter.mismatches };
}

describe('output schema of a remote tool', () => {
  test.each<[string, Json, object[]]>([
    ['a wrong type', { sum: 'three' }, [{ path: '/sum', kind: 'type_mismatch' }]],
    ['a missing field', {}, [{ path: '/sum', kind: 'missing' }]],
    ['no structured content at all', 'three', [{ path: '', kind: 'type_mismatch' }]],
  ])('%s is reported and counted, and the result is unchanged', async (_, output, faults) => {
    const { result, mismatches } = await run(remote, () => okReply(output));
    expect(result).toMatchObject({ ok: true, output, metadata: { output_schema_mismatch: faults } });
    expect(mismatches).toEqual(['adder']);
  });

  test.each<[string, Partial<RegisteredTool>, () => ReturnType<typeof okReply>]>([
    ['a result as promised', remote, () => okReply({ sum: 3 })],
    ['a failure', remote, () => failedReply('TOOL_ERROR')],
    ['a schema that does not compile', { ...remote, output_schema: { type: 'nonsense' } }, () => okReply(1)],
    ['a tool of our own', { output_schema: remote.output_schema! }, () => okReply(1)],
  ])('%s is not reported', async (_, tool, reply) => {
    const { result, mismatches } = await run(tool, reply);
    expect(result.metadata).not.toHaveProperty('output_schema_mismatch');
    expect(mismatches).toEqual([]);
  });

  test('lists the first few of many violations', async () => {
    const properties = Object.fromEntries(Array.from({ length: 9 }, (_, index) => [`f${index}`, { type: 'number' }]));
    const required = Object.keys(properties);
    const { result } = await run({ ...remote, output_schema: { type: 'object', properties, required } }, () =>
      okReply({}),
    );
    expect(result.metadata['output_schema_mismatch']).toHaveLength(5);
  });

  test('delivers a result that takes too long to check and reports it in the metadata', async () => {
    const $defs: Record<string, Json> = {};
    let output: Json = 1;
    for (let level = 0; level < 40; level += 1) {
      const next = { $ref: `#/$defs/n${level + 1}` };
      $defs[`n${level}`] = { anyOf: [{ properties: { c: next } }, { minProperties: 1, properties: { c: next } }] };
      output = { c: output };
    }
    $defs['n40'] = { type: 'string' };
    const output_schema = { type: 'object', properties: { c: { $ref: '#/$defs/n0' } }, $defs };
    const { result } = await run({ ...remote, output_schema }, () => okReply({ c: output }));
    expect(result).toMatchObject({
      ok: true,
      output: { c: output },
      metadata: { output_schema_mismatch: [{ path: '', kind: 'invalid' }] },
    });
  });
});
