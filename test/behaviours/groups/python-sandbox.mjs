/** What callers of execute_python rely on: results, limits, strictness, and a sandbox that gives nothing away. */
import { atMost, excluding, present } from '../expectation.mjs';

const STRICT =
  'collections itertools functools operator array copy enum math cmath numbers fractions decimal random statistics string textwrap ' +
  'unicodedata typing dataclasses abc contextlib';
const importAll = (modules) =>
  `${modules
    .split(' ')
    .map((name) => `import ${name}`)
    .join('\n')}\nresult = "imported"`;
const REFUSED = { success: false, metadata: { code: 'SANDBOX_POLICY' } };

/** Which of these programs run at a strictness. */
async function allowed(fleet, programs, strictness) {
  const answers = await Promise.all(programs.map((code) => fleet.python(code, { strictness })));
  return programs.filter((_code, index) => answers[index].body.metadata?.code !== 'SANDBOX_POLICY');
}

export default {
  group: 'Python sandbox',
  probes: [
    {
      name: 'value, stdout and usage of a run',
      reliance: 'the last expression or `result` is the value',
      expected: {
        success: true,
        output: { value: 285, stdout: 'done\n', usage: { peak_memory_mb: present } },
        metadata: { strictness: 'standard' },
      },
      see: async (fleet) => (await fleet.python('result = sum(x * x for x in range(10))\nprint("done")')).body,
    },
    {
      name: 'the alias python_executor',
      reliance: 'both names run, only execute_python is listed, and both share one limit',
      expected: { value: 2, listed: excluding('python_executor'), taken: 2 },
      async see(fleet) {
        const key = await fleet.key('alias', { tenant_id: fleet.fresh('alias') });
        const left = async () => {
          const { body } = await fleet.http('/api/v1/limits', { key });
          return body.tools.find(({ tool }) => tool === 'execute_python').left;
        };
        const before = await left();
        const { body } = await fleet.call('python_executor', { code: `1 + 1 # ${fleet.fresh()}` }, { key });
        await fleet.call('execute_python', { code: `1 + 1 # ${fleet.fresh()}` }, { key });
        const listed = (await fleet.http('/tools/list')).body;
        return { value: body.output.value, listed, taken: before - (await left()) };
      },
    },
    {
      name: 'modules of strict',
      reliance: 'all published modules can be imported',
      expected: { success: true, output: { value: 'imported' } },
      see: async (fleet) => (await fleet.python(importAll(STRICT), { strictness: 'strict' })).body,
    },
    {
      name: 'a module of standard at strict',
      reliance: 'strict allows pure computation only',
      expected: REFUSED,
      see: async (fleet) => (await fleet.python('import json', { strictness: 'strict' })).body,
    },
    {
      name: 'extra modules of the configuration',
      reliance: 'code_execution.extra_allowed_modules extends the list of strict',
      expected: { success: true },
      see: async (fleet) => (await fleet.python('import bisect\nresult = 1', { strictness: 'strict' })).body,
      needs: 'own',
    },
    {
      name: 'builtins that strict refuses',
      reliance: 'none of the published names can be called',
      expected: [],
      see: (fleet) =>
        allowed(
          fleet,
          [
            'eval("1")',
            'exec("1")',
            'compile("1", "f", "eval")',
            '__import__("os")',
            'open("f")',
            'input()',
            'globals()',
            'locals()',
            'vars()',
            'breakpoint()',
            'exit()',
            'quit()',
            'memoryview(b"")',
            'bytearray(1)',
          ],
          'strict',
        ),
    },
    {
      name: 'builtins that strict refuses too',
      reliance: 'no introspection at strict, but at standard',
      expected: { strict: [], standard: 8 },
      async see(fleet) {
        const programs = [
          'dir(1)',
          'hasattr(1, "a")',
          'getattr(1, "real")',
          'setattr(int, "a", 1)',
          'delattr(int, "a")',
          'type(1)',
          'isinstance(1, int)',
          'issubclass(int, int)',
        ];
        return {
          strict: await allowed(fleet, programs, 'strict'),
          standard: (await allowed(fleet, programs, 'standard')).length,
        };
      },
    },
    {
      name: 'the whole library for a public caller',
      reliance: 'lists are lifted, the sandbox stays: no files outside, no network',
      expected: { cwd: '/data', outside: 'refused', network: 'refused' },
      async see(fleet) {
        const attempt = (statement) =>
          `try:\n  ${statement}\n  result = "done"\nexcept Exception:\n  result = "refused"`;
        const value = async (code) => (await fleet.python(code)).body.output?.value;
        return {
          cwd: await value('import os\nresult = os.getcwd()'),
          outside: await value(attempt('open("/x", "w")')),
          network: await value(attempt('import urllib.request; urllib.request.urlopen("http://127.0.0.1:1")')),
        };
      },
    },
    {
      name: 'time limits by strictness',
      reliance: '10 s standard, also as lenient, 5 s strict, at most 60 s',
      expected: { lenient: 10_000, standard: 10_000, strict: 5_000, own: 20_000, tooLong: 400 },
      async see(fleet) {
        const plan = async (args) => {
          const call = { name: 'execute_python', arguments: { code: '1', ...args }, dry_run: true };
          const { body, code } = await fleet.nats('tool.call', call);
          return body.output?.timeout_ms ?? Number(code);
        };
        return {
          lenient: await plan({ strictness: 'lenient' }),
          standard: await plan({}),
          strict: await plan({ strictness: 'strict' }),
          own: await plan({ timeout_seconds: 20 }),
          tooLong: await plan({ timeout_seconds: 61 }),
        };
      },
      needs: 'nats',
    },
    {
      name: 'an endless loop',
      reliance: 'it is stopped at its limit',
      expected: {
        success: false,
        metadata: { code: 'ATTEMPT_TIMED_OUT', error_type: 'timeout' },
        execution_time_ms: atMost(8_000),
      },
      see: async (fleet) => (await fleet.python('while True: pass', { timeout_seconds: 1 })).body,
    },
    {
      name: 'memory',
      reliance: 'a run has 512 MiB; metadata shows it',
      expected: { code: 'MEMORY_EXCEEDED', below: true, shown: 512 },
      async see(fleet) {
        const { body } = await fleet.python('x = bytes(600 * 1024 * 1024)');
        const below = await fleet.python('x = bytes(200 * 1024 * 1024)\nresult = len(x)');
        const metadata = await fleet.http('/tools/execute_python/metadata');
        return { code: body.metadata.code, below: below.body.success, shown: metadata.body.memory_limit_mb };
      },
      needs: 'own',
    },
    {
      name: 'an exception',
      reliance: 'SANDBOX_ERROR with its type, line and traceback',
      expected: {
        error: 'ValueError: x',
        metadata: { code: 'SANDBOX_ERROR', details: { type: 'ValueError', line: 1, traceback: present } },
      },
      see: async (fleet) => (await fleet.python('raise ValueError("x")')).body,
    },
    {
      name: 'two runs',
      reliance: 'nothing of one run is visible to the next',
      expected: { success: false, error: /NameError/ },
      async see(fleet) {
        await fleet.python('import json\njson.leaked = 1\nleaked = 1');
        return (await fleet.python(`leaked # ${fleet.fresh()}`)).body;
      },
    },
    {
      name: 'files',
      reliance: 'given files are in the working directory, and changes of them last for one run',
      expected: { read: 'a,b', written: 'a,b!', next: 'a,b' },
      async see(fleet) {
        const value = async (code) => (await fleet.python(code, { files: { 'a.csv': 'a,b' } })).body.output?.value;
        return {
          read: await value('open("/data/a.csv").read()'),
          written: await value('open("a.csv", "a").write("!")\nopen("a.csv").read()'),
          next: await value(`open("a.csv").read() # ${fleet.fresh()}`),
        };
      },
    },
  ],
};
