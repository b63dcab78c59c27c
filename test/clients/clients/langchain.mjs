// recipe
import { MultiServerMCPClient } from '@langchain/mcp-adapters';
import { createReactAgent } from '@langchain/langgraph/prebuilt';
// end of recipe
import { BaseChatModel } from '@langchain/core/language_models/chat_models';
import { AIMessage } from '@langchain/core/messages';

/** The pictures in a result as this framework shows it to its model. */
export const picturesIn = ({ content }) => [content].flat().flatMap((part) => part.image_url?.url ?? part.data ?? []);

export async function recipe({ url, key, model, prompt, signal, onProgress }) {
  // recipe
  const headers = { Authorization: `Bearer ${key}` };
  const toolfleet = new MultiServerMCPClient({ mcpServers: { toolfleet: { url, headers } }, onProgress });
  const agent = createReactAgent({ llm: model, tools: await toolfleet.getTools() });
  const { messages } = await agent.invoke({ messages: [{ role: 'user', content: prompt }] }, { signal });
  console.log(messages.at(-1).content);
  await toolfleet.close();
  // end of recipe
}

class ScriptedChatModel extends BaseChatModel {
  constructor(script, offered = []) {
    super({});
    Object.assign(this, { script, offered });
  }

  _llmType() {
    return 'scripted';
  }

  bindTools(tools) {
    return new ScriptedChatModel(
      this.script,
      tools.map(({ name }) => name),
    );
  }

  async _generate(messages) {
    const result = messages.findLast((message) => message.getType() === 'tool');
    const call = this.script.next(this.offered, result && { content: result.content, status: result.status });
    const tool_calls = call ? [{ type: 'tool_call', ...call }] : [];
    return { generations: [{ text: '', message: new AIMessage({ content: call ? '' : 'done', tool_calls }) }] };
  }
}

/** A model of this framework that follows the script. */
export const scriptedModel = (script) => new ScriptedChatModel(script);
