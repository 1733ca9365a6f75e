/** The values of the form. */
export interface CaptureForm {
  interface: string
  protocol: '' | 'tcp' | 'udp' | 'icmp' | 'icmp6' | 'arp'
  host: string
  port: number | ''
  seconds: number
  packets: number
  bytes: number
}

export const newCapture: CaptureForm = {
  interface: '',
  protocol: '',
  host: '',
  port: '',
  seconds: 30,
  packets: 10_000,
  bytes: 10 * 1024 ** 2,
}

/** The request for a form. Ports are only sent for protocols that have them. */
export function captureBody({ protocol, host, port, ...rest }: CaptureForm) {
  const ported = protocol === '' || protocol === 'tcp' || protocol === 'udp'
  return {
    ...rest,
    ...(protocol && { protocol }),
    ...(host && { host }),
    ...(port !== '' && ported && { port }),
  }
}

const two = (n: number) => String(n).padStart(2, '0')

/** The file name has the interface and the start time. */
export function fileName(link: string, at: Date): string {
  const day = `${at.getFullYear()}${two(at.getMonth() + 1)}${two(at.getDate())}`
  return `${link}-${day}-${two(at.getHours())}${two(at.getMinutes())}${two(at.getSeconds())}.pcap`
}

/** The number of complete packets in a pcap file. */
export function packetsIn(file: Uint8Array): number {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength)
  if (file.length < 24) return 0
  const little = view.getUint32(0, true) === 0xa1b2c3d4 || view.getUint32(0, true) === 0xa1b23c4d
  let packets = 0
  for (let at = 24; at + 16 <= file.length; packets++) {
    at += 16 + view.getUint32(at + 8, little)
    if (at > file.length) break
  }
  return packets
}
