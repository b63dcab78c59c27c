import type { Toolset } from '@toolfleet/contracts/tool-definition';
import type { BuiltinTool } from './builtin-tool.js';
import { multiAgent } from './agent/multi-agent.tool.js';
import { calculator } from './calculator/calculator.tool.js';
import { fileDelete } from './files/file-delete.tool.js';
import { fileEdit } from './files/file-edit.tool.js';
import { fileExists } from './files/file-exists.tool.js';
import { fileList } from './files/file-list.tool.js';
import { fileMkdir } from './files/file-mkdir.tool.js';
import { fileRead } from './files/file-read.tool.js';
import { fileSearch } from './files/file-search.tool.js';
import { fileWrite } from './files/file-write.tool.js';
import { getWeather } from './get-weather.tool.js';
import { jsonProcess } from './json-process.tool.js';
import { crawlBatch } from './web/crawl-batch.tool.js';
import { fetchPage } from './web/fetch-page.tool.js';
import { webSearch } from './web/web-search.tool.js';
import { textProcess } from './text-process.tool.js';

/** Every builtin tool. A new one is a file and a line here. */
export const MANIFEST: readonly BuiltinTool[] = [
  calculator,
  jsonProcess,
  textProcess,
  getWeather,
  fileRead,
  fileWrite,
  fileEdit,
  fileDelete,
  fileList,
  fileExists,
  fileMkdir,
  fileSearch,
  fetchPage,
  crawlBatch,
  webSearch,
  multiAgent,
];

/** Tools of the given toolsets. */
export function toolsOf(toolsets: readonly Toolset[]): BuiltinTool[] {
  return MANIFEST.filter((tool) => toolsets.includes(toolsetOf(tool)));
}

/** Toolset a tool belongs to. */
export function toolsetOf(tool: BuiltinTool): Toolset {
  return tool.metadata.toolset ?? 'compute';
}
