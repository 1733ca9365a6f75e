import type { RadiusUser } from '../../api/types'
import type { Fields, Values } from '../../kit/form/fields'

/** The form's fields for reply attributes. A VLAN takes two more attributes, which are derived. */
const attributes = {
  framed_ip: 'Framed-IP-Address',
  session_timeout: 'Session-Timeout',
  vlan: 'Tunnel-Private-Group-Id',
} as const

type Reply = Partial<NonNullable<RadiusUser['reply_attributes']>>

export type ReplyField = keyof typeof attributes
export const replyFields: Fields<'radius.user', ReplyField> = [
  { name: 'framed_ip', type: 'mono', section: 'reply', covers: [`reply_attributes.${attributes.framed_ip}`] },
  {
    name: 'session_timeout',
    type: 'span',
    min: 1,
    max: 4_294_967_295,
    covers: [`reply_attributes.${attributes.session_timeout}`],
  },
  { name: 'vlan', type: 'number', min: 1, max: 4094, covers: [`reply_attributes.${attributes.vlan}`] },
]

export const userShape = {
  read: (row: Values): Values => {
    const reply = (row.reply_attributes ?? {}) as Reply
    return {
      ...row,
      framed_ip: reply['Framed-IP-Address'] ?? '',
      session_timeout: reply['Session-Timeout'] ?? null,
      vlan: reply['Tunnel-Private-Group-Id'] ? Number(reply['Tunnel-Private-Group-Id']) : null,
    }
  },
  write: ({ framed_ip, session_timeout, vlan, ...rest }: Values): Values => {
    const reply = {
      ...(framed_ip ? { [attributes.framed_ip]: framed_ip } : {}),
      ...(session_timeout ? { [attributes.session_timeout]: session_timeout } : {}),
      ...(vlan ? { [attributes.vlan]: String(vlan) } : {}),
    }
    return { ...rest, reply_attributes: Object.keys(reply).length > 0 ? reply : null }
  },
}
