declare module 'html-encoding-sniffer' {
  /** Canonical name of the encoding of an HTML or XML byte stream. */
  export default function htmlEncodingSniffer(
    bytes: Uint8Array,
    options?: {
      xml?: boolean;
      transportLayerEncodingLabel?: string;
      defaultEncoding?: string;
      maxPrescanBytes?: number;
    },
  ): string;
}
