/** An agent of the OpenAI Agents SDK with the tools of a fleet over MCP. */
import { Agent, MCPServerStreamableHttp, run, setOpenAIAPI, setTracingDisabled } from '@openai/agents';

const { OPENAI_MODEL: model = 'gpt-4.1-mini', TOOLFLEET_URL, TOOLFLEET_API_KEY } = process.env;

// Models of other providers have the chat API only. OPENAI_API_KEY and OPENAI_BASE_URL are read by the SDK.
setOpenAIAPI('chat_completions');
setTracingDisabled(true);

const fleet = new MCPServerStreamableHttp({
  url: `${TOOLFLEET_URL}/mcp`,
  requestInit: { headers: { Authorization: `Bearer ${TOOLFLEET_API_KEY}` } },
});
await fleet.connect();
try {
  const agent = new Agent({ name: 'assistant', model, mcpServers: [fleet] });
  const { finalOutput } = await run(agent, process.argv.slice(2).join(' '));
  console.log(finalOutput);
} finally {
  await fleet.close();
}
