// recipe
import { Agent, MCPServerStreamableHttp, run } from '@openai/agents';
// end of recipe
import { setTracingDisabled, Usage } from '@openai/agents';

/** The pictures in a result as this framework shows it to its model. */
export const picturesIn = (shown) =>
  [shown]
    .flat()
    .filter(({ type }) => type === 'input_image' || type === 'image')
    .map(({ image }) => image);
setTracingDisabled(true);

export async function recipe({ url, key, model, prompt, signal }) {
  // recipe
  const toolfleet = new MCPServerStreamableHttp({ url, requestInit: { headers: { Authorization: `Bearer ${key}` } } });
  await toolfleet.connect();
  const agent = new Agent({ name: 'assistant', model, mcpServers: [toolfleet] });
  const { finalOutput } = await run(agent, prompt, { signal });
  console.log(finalOutput);
  await toolfleet.close();
  // end of recipe
}

/** A model of this framework that follows the script. */
export function scriptedModel(script) {
  return {
    async getResponse({ input, tools }) {
      const results = [input].flat().filter((item) => item.type === 'function_call_result');
      const call = script.next(
        tools.map(({ name }) => name),
        results.at(-1)?.output,
      );
      const output = call
        ? {
            type: 'function_call',
            callId: call.id,
            name: call.name,
            arguments: JSON.stringify(call.args),
            status: 'completed',
          }
        : { type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: 'done' }] };
      return { output: [output], usage: new Usage() };
    },
  };
}
