export function isProduction(path: string): boolean;
export function packageOf(path: string): string;
export function partOf(path: string): 'kits' | 'pack' | 'core';
export function countLines(text: string): number;
