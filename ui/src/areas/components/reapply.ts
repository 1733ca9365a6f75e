import { http, unwrap } from '../../api/client'
import i18n from '../../i18n/i18n'
import { toast, toastFault } from '../../kit/state/toast'

/** Renders and applies everything again, and reports failures. */
export async function reapply() {
  try {
    const { ok, errors } = await unwrap(http.POST('/system/render-configs'))
    const failed = Object.entries(errors ?? {}).map(([name, message]) => `${name}: ${message}`)
    if (ok) toast('live', i18n.t('bar.applied'))
    else toast('bad', i18n.t('bar.failed'), failed.join(' '))
  } catch (cause) {
    toastFault(cause)
  }
}
