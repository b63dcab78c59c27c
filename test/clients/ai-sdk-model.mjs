/** A model for frameworks that take models of the AI SDK. */
import { MockLanguageModelV4 } from 'ai/test';

const NO_USAGE = { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 };
const USAGE = { inputTokens: NO_USAGE, outputTokens: { total: 1, text: 1, reasoning: 0 } };

export function scriptedAiSdkModel(script) {
  const answer = ({ prompt, tools = [] }) => {
    const results = prompt.filter(({ role }) => role === 'tool').flatMap(({ content }) => content);
    const call = script.next(
      tools.map(({ name }) => name),
      results.at(-1)?.output,
    );
    return call
      ? {
          content: { type: 'tool-call', toolCallId: call.id, toolName: call.name, input: JSON.stringify(call.args) },
          unified: 'tool-calls',
        }
      : { content: { type: 'text', text: 'done' }, unified: 'stop' };
  };
  return new MockLanguageModelV4({
    doGenerate: async (options) => {
      const { content, unified } = answer(options);
      return { content: [content], finishReason: { unified, raw: undefined }, usage: USAGE, warnings: [] };
    },
    doStream: async (options) => {
      const { content, unified } = answer(options);
      const parts =
        content.type === 'tool-call'
          ? [content]
          : [
              { type: 'text-start', id: '0' },
              { type: 'text-delta', id: '0', delta: content.text },
              { type: 'text-end', id: '0' },
            ];
      const finish = { type: 'finish', finishReason: { unified, raw: undefined }, usage: USAGE };
      return { stream: ReadableStream.from([{ type: 'stream-start', warnings: [] }, ...parts, finish]) };
    },
  });
}

/** The pictures in a result as the AI SDK shows it to a model. */
export const picturesInAiSdk = ({ type, value }) =>
  type === 'content' ? value.filter((part) => part.type !== 'text').map(({ data }) => data?.data ?? data) : [];
