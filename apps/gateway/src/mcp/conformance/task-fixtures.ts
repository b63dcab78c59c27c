import { inputRequired, type ServerContext } from '@modelcontextprotocol/server';
import type { JsonObject } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import type { ExtraResult, ExtraTool } from '../extras.js';
import { principalOf } from '../principal-of.js';
import { createTaskResult } from '../tasks.js';
import { fixture, stringsSchema, textResult } from './fixture.js';
import { answered, form } from './input-fixtures.js';
import type { MemoryTasks, TaskWork } from './memory-tasks.js';

const FAIL_AFTER_MS = 1_000;

/** Tools of the tasks extension: at once, slow, failing in both ways, asking once and twice, and after a round of input. */
export function taskFixtures(clock: Clock, tasks: MemoryTasks): ExtraTool[] {
  const begin = (context: ServerContext, tool: string, work: TaskWork): ExtraResult =>
    createTaskResult(tasks.begin(principalOf(context.http?.authInfo).tenantId, tool, work), tasks);
  const done = (text: string): JsonObject => textResult(text) as JsonObject;
  const optional = { task_support: 'optional' } as const;
  const question = (message: string, field: string, type: 'string' | 'boolean' = 'boolean') =>
    form(message, field, type) as unknown as JsonObject;

  return [
    fixture('greet', 'Greets at once', ({ name }) => textResult(`Hello, ${String(name)}!`), {
      input_schema: stringsSchema('name'),
    }),
    fixture(
      'slow_compute',
      'Sleeps, then answers',
      async ({ seconds = 0, label = '' }, context, takesTask) => {
        const work = async (signal: AbortSignal) => {
          await clock.sleep(Number(seconds) * 1_000, signal);
          return done(`computed ${String(label)}`);
        };
        if (!takesTask || Number(seconds) === 0) return work(context.mcpReq.signal);
        return begin(context, 'slow_compute', ({ signal }) => work(signal));
      },
      {
        ...optional,
        input_schema: { type: 'object', properties: { seconds: { type: 'number' }, label: { type: 'string' } } },
      },
    ),
    fixture(
      'failing_job',
      'Fails after a second',
      (_args, context) =>
        begin(context, 'failing_job', async ({ signal }) => {
          await clock.sleep(FAIL_AFTER_MS, signal);
          return { ...done('the job failed'), isError: true };
        }),
      { task_support: 'required' },
    ),
    fixture(
      'protocol_error_job',
      'Breaks',
      async (_args, context, takesTask) => {
        if (!takesTask) throw new Error('broken');
        return begin(context, 'protocol_error_job', async () => {
          throw new Error('broken');
        });
      },
      optional,
    ),
    fixture(
      'confirm_delete',
      'Asks before it deletes',
      (args, context) =>
        begin(context, 'confirm_delete', async ({ ask }) => {
          const answers = await ask({ confirm: question(`Delete ${String(args['filename'])}?`, 'confirm') });
          return done(`answered ${JSON.stringify(answers)}`);
        }),
      { ...optional, input_schema: { type: 'object', properties: { filename: { type: 'string' } } } },
    ),
    fixture(
      'multi_input',
      'Asks two things at once',
      (_args, context) =>
        begin(context, 'multi_input', async ({ ask }) => {
          const answers = await ask({
            name: question('Who?', 'name', 'string'),
            confirm: question('Sure?', 'confirm'),
          });
          return done(`answered ${JSON.stringify(answers)}`);
        }),
      optional,
    ),
    fixture(
      'test_tool_with_task',
      'Asks for a name, then becomes a task',
      (_args, context) => {
        const name = answered(context, 'user_name', 'name');
        if (name === undefined)
          return inputRequired({ inputRequests: { user_name: form('What is your name?', 'name') } }) as ExtraResult;
        return begin(context, 'test_tool_with_task', async () => done(`Hello, ${String(name)}!`));
      },
      { task_support: 'required' },
    ),
  ];
}
