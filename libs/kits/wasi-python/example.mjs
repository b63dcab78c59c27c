import { SystemClock } from '@toolfleet/base';
import { namedInterpreter, Sandbox, SCRIPTS } from '@toolfleet/wasi-python';

const sandbox = new Sandbox({
  clock: new SystemClock(),
  hostScript: SCRIPTS.host,
  graceMs: 2_000,
  recycleRuns: 50_000,
  recycleRssMb: 2_048,
  settings: {
    interpreter: { ...namedInterpreter(), tableLimit: 10_000 },
    threadScript: SCRIPTS.thread,
    threads: 1,
    programs: 0,
    outputCap: 1024 * 1024,
    memoryLimitMb: 128,
    memoryBudgetMb: 128,
    warmUpMs: 0,
  },
});
await sandbox.start();

const run = (code, more) =>
  sandbox.run({
    code,
    args: null,
    stdin: '',
    files: {},
    strictness: 'standard',
    extraModules: [],
    session: null,
    keepSession: false,
    timeoutMs: 20_000,
    memoryLimitMb: 128,
    reportsProgress: false,
    ...more,
  });

const sum = await run('print("hi")\nsum(args["numbers"])', { args: { numbers: [1, 2, 3] } });
console.log(sum.status, sum.value, sum.stdout.trim());

const endless = await run('while True: pass', { timeoutMs: 300 });
console.log(endless.status);

const dial = await run('import socket\nsocket.create_connection(("127.0.0.1", 80), 1)');
console.log(dial.status);

await sandbox.close();
