/**
 * Frees the memory of bytes that nothing uses any more, unless other bytes share it. V8 would keep it until it collects garbage, and after every
 * 40 MB of such memory it collects the whole heap while the event loop waits.
 */
export function freeMemory({ buffer, byteLength }: Uint8Array): void {
  if (byteLength === buffer.byteLength) detach(buffer);
}

/** The same for bytes that are known to be all that is used of their memory. */
export function freeWholeMemory({ buffer }: Uint8Array): void {
  detach(buffer);
}

function detach(buffer: ArrayBufferLike): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength > 0) buffer.transfer(0);
}
