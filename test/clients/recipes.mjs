/** The clients of the matrix and their recipes. A recipe is a region of the file that the matrix runs, so it cannot become outdated. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';

/** The Python that runs clients in Python. */
export const PYTHON = process.env.TEST_PYTHON ?? 'python3';

/**
 * Every client by the name of its file, in the order of the table: its title, the packages that its recipe needs, and notes for users.
 * `peer` is a package that it needs from its user, `python` the version of the first package of a client in Python.
 */
export const CLIENTS = {
  'openai-agents': { title: 'OpenAI Agents SDK', packages: ['@openai/agents', 'zod'], peer: 'zod' },
  'ai-sdk': { title: 'AI SDK', packages: ['ai', '@ai-sdk/mcp'] },
  langchain: {
    title: 'LangChain with LangGraph',
    packages: ['@langchain/mcp-adapters', '@langchain/langgraph', '@langchain/core'],
  },
  mastra: { title: 'Mastra', packages: ['@mastra/mcp', '@mastra/core'] },
  'google-adk': {
    title: 'Google ADK',
    packages: ['@google/adk', '@modelcontextprotocol/sdk'],
    peer: '@modelcontextprotocol/sdk',
    note: 'Use `http://127.0.0.1:8080/mcp?schema_style=inline` as `url`: Gemini takes no references in schemas.',
  },
  strands: {
    title: 'Strands Agents',
    packages: ['@strands-agents/sdk', '@modelcontextprotocol/sdk'],
    peer: '@modelcontextprotocol/sdk',
  },
  genkit: {
    title: 'Genkit',
    packages: ['@genkit-ai/mcp', 'genkit'],
    note: 'Without `multipart` the model gets no pictures. A wrong key is reported on the console only; the run then finds no tools.',
  },
  'mcp-sdk-1': { title: 'MCP SDK 1 for TypeScript', packages: ['@modelcontextprotocol/sdk'] },
  'mcp-sdk-2': { title: 'MCP SDK 2 for TypeScript', packages: ['@modelcontextprotocol/client'] },
  'mcp-python': { title: 'MCP SDK for Python', packages: ['mcp', 'httpx2'], peer: 'httpx2', python: '2.3.0' },
  inspector: {
    title: 'MCP Inspector, command line',
    packages: ['@modelcontextprotocol/inspector'],
    note: '`URL` and `TOOLFLEET_API_KEY` as above; `TOOL` is a name of the list, `ARGUMENTS` a JSON object such as `{"expression": "6*7"}`. `--stored-auth-only` shows what the gateway says to a wrong key instead of asking for a sign-in.',
  },
  'mcp-remote': {
    title: 'mcp-remote, for applications that start local servers',
    packages: ['mcp-remote'],
    note: 'For the configuration file of the application, such as `claude_desktop_config.json`.',
  },
};

/** Whether a client can run here: those in Python need their packages, in their version. @param {string} client */
export function isInstalled(client) {
  const { python: version, packages } = CLIENTS[client];
  if (version === undefined) return true;
  const program = 'import importlib.metadata as m, sys; print(m.version(sys.argv[1]))';
  try {
    return execFileSync(PYTHON, ['-c', program, packages[0]], { encoding: 'utf8', stdio: 'pipe' }).trim() === version;
  } catch {
    return false;
  }
}

/** The recipe of a client: its language and its lines. @param {string} client */
export function readRecipe(client) {
  for (const language of ['sh', 'json']) {
    const file = new URL(`clients/${client}.${language}`, import.meta.url);
    if (existsSync(file)) return { language, lines: readFileSync(file, 'utf8').trim().split('\n') };
  }
  const language = CLIENTS[client].python === undefined ? 'js' : 'py';
  const file = `clients/${client}.${language === 'js' ? 'mjs' : 'py'}`;
  const text = readFileSync(new URL(file, import.meta.url), 'utf8');
  const regions = [...text.matchAll(/^( *)(?:\/\/|#) recipe\n([^]*?)^ *(?:\/\/|#) end of recipe$/gm)];
  if (regions.length === 0) throw new Error(`${file} has no recipe`);
  const [imports, ...body] = regions.map(([, indent, region]) =>
    region
      .trimEnd()
      .split('\n')
      .map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line)),
  );
  return { language, lines: [...imports, '', ...body.flat()] };
}

/** Lines of a recipe that a user writes: those that are not blank. */
export const countLines = (client) => readRecipe(client).lines.filter((line) => line.trim() !== '').length;

/** Commands from an empty folder to the first call: the installation and the program, or of a recipe for a shell. */
export function countCommands(client) {
  const { language } = readRecipe(client);
  return { js: 2, py: 2, sh: 1, json: 0 }[language];
}

/** All recipes as parts of docs/clients.md. */
export function renderRecipes() {
  return Object.entries(CLIENTS)
    .map(([client, { title, packages, note }]) => {
      const { language, lines } = readRecipe(client);
      const installer = { js: 'npm', py: 'pip' }[language];
      const install = installer ? [`\`${installer} install ${packages.join(' ')}\``] : [];
      const block = `\`\`\`${language}\n${lines.join('\n')}\n\`\`\``;
      return [`### ${title}`, ...install, block, ...(note ? [note] : [])].join('\n\n');
    })
    .join('\n\n');
}
