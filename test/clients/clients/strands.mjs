// recipe
import { Agent, McpClient } from '@strands-agents/sdk';
// end of recipe
import { Model } from '@strands-agents/sdk';

/** The pictures in a result as this framework shows it to its model. */
export const picturesIn = ({ content }) => content.flatMap(({ image }) => image?.source.bytes ?? []);

export async function recipe({ url, key, model, prompt, signal }) {
  // recipe
  const toolfleet = new McpClient({ url, headers: { Authorization: `Bearer ${key}` } });
  const agent = new Agent({ model, tools: [toolfleet] });
  const result = await agent.invoke(prompt, { cancelSignal: signal });
  console.log(String(result));
  await toolfleet.disconnect();
  // end of recipe
}

class ScriptedModel extends Model {
  constructor(script) {
    super();
    this.script = script;
  }

  updateConfig() {}

  getConfig() {
    return { modelId: 'scripted' };
  }

  async *stream(messages, { toolSpecs = [] } = {}) {
    const results = messages.flatMap(({ content }) => content).filter(({ type }) => type === 'toolResultBlock');
    const result = results.at(-1);
    const call = this.script.next(
      toolSpecs.map(({ name }) => name),
      result && { status: result.status, content: result.content },
    );
    yield { type: 'modelMessageStartEvent', role: 'assistant' };
    if (call) {
      yield {
        type: 'modelContentBlockStartEvent',
        start: { type: 'toolUseStart', name: call.name, toolUseId: call.id },
      };
      yield {
        type: 'modelContentBlockDeltaEvent',
        delta: { type: 'toolUseInputDelta', input: JSON.stringify(call.args) },
      };
    } else {
      yield { type: 'modelContentBlockStartEvent' };
      yield { type: 'modelContentBlockDeltaEvent', delta: { type: 'textDelta', text: 'done' } };
    }
    yield { type: 'modelContentBlockStopEvent' };
    yield { type: 'modelMessageStopEvent', stopReason: call ? 'toolUse' : 'endTurn' };
  }
}

/** A model of this framework that follows the script. */
export const scriptedModel = (script) => new ScriptedModel(script);
