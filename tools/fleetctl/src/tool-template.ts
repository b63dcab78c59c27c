/** The file `fleetctl tool new` writes: a tool that works, with a remark at each place to change. */
export function toolTemplate(name: string, toolset: string): string {
  return `// Your own tool, in the folder BUILTIN_PLUGINS_DIR (local mode: plugins), loaded again on every save in local mode.
// All fields: docs/write-a-tool.md

/** @type {import('@toolfleet/builtin-tools').Plugin} */
export default ({ defineTool, ok, ToolError }) =>
  defineTool({
    name: '${name}',
    version: '1.0.0',
    // Read by the model: what it does, when to use it, what it returns.
    description: 'Count the words of a text.',
    category: 'custom',
    toolset: '${toolset}',
    // JSON Schema. Arguments arrive here checked and converted ("5" is 5 already).
    inputSchema: {
      type: 'object',
      properties: {
        text: { type: 'string', description: 'The text', minLength: 1, maxLength: 100_000 },
      },
      required: ['text'],
      additionalProperties: false,
    },
    // Running it twice is the same as once: may be cached and tried again. Leave it out for anything with an effect.
    idempotent: true,
    timeoutSeconds: 10,
    handler({ text }, run) {
      const words = text.match(/\\S+/g) ?? [];
      if (words.length > 50_000) {
        // What the tool says no to; the model reads the message.
        throw new ToolError('TOOL_ERROR', { message: 'Too many words' });
      }
      // run.signal is aborted at the deadline: hand it to everything that waits. run.context.tenant_id is who calls.
      run.progress({ message: 'counted' });
      return ok({ words: words.length }, \`\${words.length} words\`);
    },
  });
`;
}
